# SPDX-License-Identifier: Apache-2.0
"""`stoker sim faults`: what the health of cards makes of scripted faults (SIM).

Relied on by the table of simulators in `tui/sim_commands.py`, which loads it by name. The faults
are played in a process of its own, whose environment has the simulated drivers; nothing of the
machine changes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from stoker.agent.health.scenarios import PROFILE
from stoker.native.errors import Unavailable

LIMIT_S = 180
_CHILD = "import sys; from stoker.agent.health.sim_commands import child; child(sys.argv[1])"


@click.command("faults")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def sim_faults_command(as_json: bool) -> None:
    """Play faults on simulated cards (SIM) of three vendors; each must lead to the tabled action.

    Exits with 1 if one did not.
    """
    with tempfile.TemporaryDirectory(prefix="stoker-sim-") as folder:
        report = _run(Path(folder))
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        click.echo(table(report), nl=False)
    sys.exit(bool(report["wrong"]))


def _run(folder: Path) -> dict[str, Any]:
    from stoker.probes.simdriver import libraries, profiles

    node = profiles.node(PROFILE, folder / "node", seed=1)
    vendors = {node.truth(i)["model"]["vendor"] for i in range(node.describe()["cards"])}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder)],
        env=libraries.environment(folder / "node", vendors),
        stdout=subprocess.PIPE,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"the rehearsal ended with {done.returncode}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def child(folder: str) -> None:
    """In the simulated environment: play, print, and end although a call may hang."""
    import asyncio
    import logging
    import os

    import structlog

    from stoker.agent.health.rehearsal import rehearse

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    report = asyncio.run(rehearse(Path(folder)))
    sys.stdout.write(json.dumps(report))
    sys.stdout.flush()
    os._exit(0)


def table(report: dict[str, Any]) -> str:
    """A line for each fault."""
    lines = [f"{'FAULT (SIM)':34}{'SIGNAL':18}{'ACTION':10}{'AFTER':>8}  REASON"]
    for row in report["faults"]:
        after = "-" if row["after_s"] is None else f"{row['after_s']:.2f} s"
        action = row["expected"] if row["ok"] else f"not {row['expected']}"
        lines.append(f"{row['name']:34}{row['signal']:18}{action:10}{after:>8}  {row['reason']}")
    wrong = ", ".join(report["wrong"])
    lines.append(f"wrong: {wrong}" if wrong else f"all {len(report['faults'])} as the table says")
    return "\n".join(lines) + "\n"
