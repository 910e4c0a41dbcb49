# SPDX-License-Identifier: Apache-2.0
"""`stoker sim faults`: plays faults on simulated cards (SIM) and checks the actions that follow.

The faults are played on a temporary node, whose processes load the simulated drivers through their
environment. Invariant: the node's folder is removed at the end, and the machine stays as it was.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from stoker.agent.health.scenarios import PROFILE


@click.command("faults")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output form.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: -o json.")
def sim_faults_command(as_json: bool, output: str) -> None:
    """Play faults on simulated cards (SIM) of three vendors; each must lead to the tabled action.

    Exits with 1 if one did not.
    """
    with tempfile.TemporaryDirectory(prefix="stoker-sim-") as folder:
        report = _run(Path(folder))
    if as_json or output == "json":
        click.echo(json.dumps(report, indent=2))
    else:
        click.echo(table(report), nl=False)
    sys.exit(bool(report["wrong"]))


def _run(folder: Path) -> dict[str, Any]:
    import asyncio

    from stoker.agent.health.rehearsal import rehearse, running
    from stoker.probes.simdriver import libraries, profiles

    node = profiles.node(PROFILE, folder / "node", seed=1)
    vendors = {node.truth(i)["model"]["vendor"] for i in range(node.describe()["cards"])}
    state = folder / "state"
    with running(state, libraries.environment(folder / "node", vendors)):
        return asyncio.run(rehearse(node, state))


def table(report: dict[str, Any]) -> str:
    """Return a line for each fault: the time until the decision, the period, the commit's time."""
    head = ("SIGNAL", "ACTION", "DECIDED", "PERIOD", "COMMIT")
    lines = [
        f"{'FAULT (SIM)':34}{head[0]:18}{head[1]:12}{head[2]:>9}{head[3]:>9}{head[4]:>9}  REASON"
    ]
    for row in report["faults"]:
        action = row["expected"] if row["ok"] else f"not {row['expected']}"
        commit = "held" if row["held_before"] else _ms(row["commit_ms"])
        lines.append(
            f"{row['name']:34}{row['signal']:18}{action:12}{_ms(row['decided_ms']):>9}"
            f"{_ms(row['period_ms']):>9}{commit:>9}  {row['reason']}"
        )
    late = ", ".join(report["late"])
    wrong = ", ".join(report["wrong"])
    lines += [f"later than its period: {late}"] if late else []
    lines.append(f"wrong: {wrong}" if wrong else f"all {len(report['faults'])} as the table says")
    return "\n".join(lines) + "\n"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
