# SPDX-License-Identifier: Apache-2.0
"""The verb `chaos`.

Everything heavy is imported inside the verb.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.tui.options.verb_options import json_option
from stoker.tui.render import text

if TYPE_CHECKING:
    from stoker.tui.chaos.chaos_figures import Round
    from stoker.tui.chaos.chaos_run import ChaosReport

MINUTES = 10.0
MINUTES_OF_EACH = 0.75
"""The time that a fault of `--faults` may take in the mean, before no other one begins."""


@click.command("chaos")
@json_option
@click.option("--minutes", type=click.FloatRange(min=0.1),
              help=f"Time after which no other fault begins. [default: {MINUTES:g}, or"
              f" {MINUTES_OF_EACH:g} for each of --faults]")  # fmt: skip
@click.option("--faults", "of_each", type=click.IntRange(min=1), metavar="N",
              help="End after N faults of each kind: 100 decide about its target.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Order and length of faults.")
@click.option("--kind", "words", multiple=True, metavar="TEXT",
              help="Only faults with this in their name; repeat for others.")  # fmt: skip
@click.option("--history", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write what clients read and wrote, one JSON object a line.")  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="List the faults and end.")
def chaos_command(
    *,
    as_json: bool,
    minutes: float | None,
    of_each: int | None,
    seed: int,
    words: tuple[str, ...],
    history: Path | None,
    listed: bool,
) -> None:
    """Break a cluster made for it, fault by fault, and judge it.

    Three hosts are network namespaces, with real brokers, schedulers, agents and jobs; root is
    needed, and your own cluster is never touched. The exit code is 0 only if no accepted job was
    lost, nothing ran twice, reads saw what was written, and nothing is left behind.
    """
    from stoker.tui.chaos import faults

    kinds = faults.chosen(words)
    if not kinds:
        raise click.UsageError("no fault has that in its name: --list shows them")
    if listed:
        text.show("".join(f"{kind.name}\n" for kind in kinds))
        return
    from stoker.tui.chaos import chaos_run

    if minutes is None:
        minutes = MINUTES_OF_EACH * of_each * len(kinds) if of_each else MINUTES
    plan = chaos_run.ChaosPlan(minutes, seed, kinds, *([of_each] if of_each else []))
    report = chaos_run.run(plan, _tell, history)
    _show(report, minutes, as_json=as_json)
    sys.exit(1 if report.violations or report.failures else 0)


def _tell(done: Round) -> None:
    """Tell one round at once, beside the output: a run takes long."""
    times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in done.times.items())
    text.tell(f"{done.fault} ({done.host}) {done.lasted_s:.1f} s: {times}")


def _show(report: ChaosReport, minutes: float, *, as_json: bool) -> None:
    from stoker.tui.chaos import chaos_figures
    from stoker.tui.render import chaos_page, tables

    rows = chaos_figures.by_fault(report.rounds)
    found: dict[str, Any] = {
        "schema": tables.SCHEMA,
        "minutes": minutes,
        "seed": report.seed,
        "faults": len(report.rounds),
        "accepted": report.accepted,
        "attempts": report.attempts,
        "unanswered": report.unanswered,
        "operations": report.operations,
        "operations_unanswered": report.operations_unanswered,
        "entries": report.entries,
        "violations": report.violations,
        "failures": report.failures,
        "by_fault": rows,
        "targets": chaos_figures.judged(rows),
        "rounds": [each._asdict() for each in report.rounds],
    }
    text.show(tables.render_one(found) if as_json else chaos_page.render(found))
