# SPDX-License-Identifier: Apache-2.0
"""The verbs of jobs that exist: jobs, job, logs, cancel, rm, wait, explain, eff.

Each verb parses its options, sends requests through `calls.job_calls`, and prints the replies as
`render` formats them. A verb imports what it alone needs when it runs, so that `jobs` starts fast.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from stoker.tui.commands.replies import call, show, show_read
from stoker.tui.options import completion, selectors
from stoker.tui.options.job_states import JOB_STATES, JobStates
from stoker.tui.options.quantity import SPAN
from stoker.tui.options.verb_options import node_option, output_option, read_options
from stoker.tui.render import nouns, tables, text

if TYPE_CHECKING:
    from stoker.mesh.client.read_choice import ReadChoice
    from stoker.tui.render.columns import Row

PAGES_MAX = 20
"""The most jobs that `job` and `explain` print a page of: an array may have thousands."""


@click.command("jobs")
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="Jobs to list."
)
@click.option("--all", "everything", is_flag=True, help="List every known job.")
@click.option("-r", "--array", "each", is_flag=True, help="List each job of an array in its row.")
@click.option(
    "-u",
    "--user",
    default="",
    help="List jobs of this user, as an administrator, or only your own: @me.",
)
@click.option(
    "-t",
    "--status",
    multiple=True,
    type=JobStates(),
    help="List only these states, by stoker's words or Slurm's codes: running,pd.",
)
@click.option(
    "--state", metavar="DIR", help="State folder of the node; a job's state works as --status."
)
@read_options
@output_option("table")
def jobs_command(
    *,
    limit: int,
    everything: bool,
    each: bool,
    user: str,
    status: Sequence[tuple[str, ...]],
    state: str | None,
    output: tables.Output,
    reads: ReadChoice,
) -> None:
    """List jobs, newest first.

    An array is one row with the number of its jobs in each state. The forms for programs have a row
    for each job.
    """
    from stoker.tui.calls import job_calls

    states = [each for several in status for each in several]
    if state in JOB_STATES:  # people who mean --status write --state
        states, state = [*states, state], None
    most = None if everything else limit
    arrays = output in ("table", "wide") and not each
    request = job_calls.jobs(state, reads, states=states, user=user, limit=most, arrays=arrays)
    read = call(request)
    show_read(nouns.JOBS, read, output, reads)


@click.command("job")
@click.argument("selector", default="last", shell_complete=completion.jobs)
@click.option("--rank", type=click.IntRange(0), default=None, help="Show the trace of this rank.")
@node_option
@output_option("table")
def job_command(selector: str, state: str | None, output: tables.Output, rank: int | None) -> None:
    """Show jobs with their placement, kernels and device time.

    SELECTOR is a job number, a list such as 1,4-6 or 1-10:2, `last`, `all`, `@me` or a name.
    """
    from stoker.tui.calls import job_calls

    chosen, most = selectors.parse(selector), _pages(output)
    rows = call(job_calls.job_objects(state, chosen, selector, rank, most))
    if output in ("table", "wide"):
        text.show("\n\n".join(_report(row) for row in rows) + "\n")
    else:
        show(nouns.JOBS, rows, output, alone=True)


@click.command("logs")
@click.argument("selector", default="last", shell_complete=completion.jobs)
@click.option("-f", "--follow", is_flag=True, help="Continue until the job is over.")
@click.option("--stdout", "only", flag_value="out", help="Print only its stdout.")
@click.option("--stderr", "only", flag_value="err", help="Print only its stderr.")
@click.option(
    "--attempt", type=click.IntRange(1), default=None, help="Print this attempt, not the last one."
)
@click.option(
    "--rank", type=click.IntRange(0), default=None, help="Print this rank of a gang, not all."
)
@click.option("--raw", is_flag=True, help="Send a terminal each byte, whatever it does with it.")
@node_option
def logs_command(selector: str, follow: bool, only: str | None, **chosen: Any) -> None:
    """Print a job's output: its stdout to stdout, its stderr to stderr.

    The lines of a gang stand behind the numbers of their ranks. On a terminal, characters that
    would control it are shown as `?`.
    """
    from stoker.tui.calls import job_calls
    from stoker.tui.calls.rank_output import Which

    streams = (only,) if only else ("out", "err")
    jobs = selectors.parse(selector)
    which = Which(streams, chosen["attempt"] or 0, chosen["rank"], chosen["raw"])
    sys.exit(call(job_calls.logs(chosen["state"], jobs, selector, which, follow=follow)))


@click.command("cancel")
@click.argument("selector", shell_complete=completion.live_jobs)
@click.option("--reason", default="", help="Reason to show with the job.")
@node_option
@output_option("table")
def cancel_command(selector: str, reason: str, state: str | None, output: tables.Output) -> None:
    """Stop jobs; those that are over stay as they are.

    SELECTOR is a job number, a list such as 1,4-6 or 1-10:2, `last`, `all`, `@me` or a name.
    """
    from stoker.tui.calls import job_calls

    rows = call(job_calls.cancel(state, selectors.parse(selector), selector, reason))
    if output not in ("table", "wide"):
        show(nouns.JOBS, rows, output)
        return
    for row in rows:
        click.echo(_cancelled(row))
    if not rows:
        click.echo("no job to stop")


@click.command("rm")
@click.argument("selector", shell_complete=completion.ended_jobs)
@node_option
@output_option("table")
def rm_command(selector: str, state: str | None, output: tables.Output) -> None:
    """Delete jobs that are over, and their output.

    SELECTOR is a job number, a list such as 1,4-6 or 1-10:2, `last`, `all`, `@me` or a name. `all`
    skips jobs that are not over; to name one of them is an error.
    """
    from stoker.tui.calls import job_calls

    rows = call(job_calls.remove(state, selectors.parse(selector), selector))
    if output not in ("table", "wide"):
        show(nouns.JOBS, rows, output)
        return
    for row in rows:
        click.echo(f"job {row['job']} {'is' if row['changed'] else 'was'} removed")
    if not rows:
        click.echo("no job to remove")


@click.command("wait")
@click.argument("selector", default="last", shell_complete=completion.live_jobs)
@click.option(
    "--timeout", "timeout_s", type=SPAN, help="Give up after this time, with exit code 124."
)
@node_option
@output_option("table")
def wait_command(
    selector: str, timeout_s: float | None, state: str | None, output: tables.Output
) -> None:
    """Wait until jobs end.

    Exit code: for one job its own, as `run` has it; for several 0 if all succeeded, else 1.
    """
    from stoker.tui.calls import job_calls
    from stoker.tui.render import report

    chosen = selectors.parse(selector)
    code, rows = call(job_calls.wait(state, chosen, selector, timeout_s))
    if output not in ("table", "wide"):
        show(nouns.JOBS, rows, output)
    for row in rows:
        if output in ("table", "wide"):
            click.echo(text.clean(report.waited(row)))
    sys.exit(code)


@click.command("explain")
@click.argument("selector", default="last", shell_complete=completion.jobs)
@click.option("--rank", type=click.IntRange(0), default=0, help="Show the decision of this rank.")
@node_option
@output_option("table")
def explain_command(selector: str, state: str | None, output: tables.Output, rank: int) -> None:
    """Tell why a job waits, runs where it runs, or ended as it did."""
    from stoker.tui.calls import job_calls
    from stoker.tui.render import explain

    chosen, most = selectors.parse(selector), _pages(output)
    rows = call(job_calls.explain(state, chosen, selector, rank, most))
    now_ns, width, whole = time.time_ns(), text.page(sys.stdout), output == "wide"
    if output in ("table", "wide"):
        pages = (explain.render(row, now_ns=now_ns, width=width, whole=whole) for row in rows)
        text.show("\n\n".join(pages) + "\n")
    else:
        show(nouns.JOBS, rows, output, alone=True)


@click.command("eff")
@click.argument("selector", default="last", shell_complete=completion.jobs)
@node_option
@output_option("table")
def eff_command(selector: str, state: str | None, output: tables.Output) -> None:
    """Tell how well jobs use the GPUs, CPUs and memory that they hold, and what they waste."""
    from stoker.tui.calls import job_calls
    from stoker.tui.render import explain

    chosen, most = selectors.parse(selector), _pages(output)
    rows = call(job_calls.explain(state, chosen, selector, 0, most))
    if output in ("table", "wide"):
        width = text.page(sys.stdout)
        text.show("\n\n".join(explain.efficient(row, width) for row in rows) + "\n")
    else:
        kept = ("job", "state", "efficiency")
        found = [{name: row.get(name) for name in kept} for row in rows]
        show(nouns.JOBS, found, output, alone=True)


def _cancelled(row: Row) -> str:
    """The line about a job that was to be stopped, or about those of an array."""
    several = bool(row.get("last"))
    named = f"jobs {row['job']}-{row['last']}" if several else f"job {row['job']}"
    if not row["changed"]:
        return f"{named} {'were' if several else 'was'} over already ({row['state']})"
    verb = "are" if several else "is"
    if row["state"] == "cancelled":  # it had not begun
        return f"{named} {verb} cancelled"
    return f"{named} {verb} being stopped ({row['state']})"


def _pages(output: tables.Output) -> int | None:
    """The most jobs of which each has a page; the forms for programs have all."""
    return PAGES_MAX if output in ("table", "wide") else None


def _report(row: Row) -> str:
    from stoker.tui.render import report

    return report.render(
        row,
        width=text.page(sys.stdout),
        colour=text.colours(sys.stdout),
        unicode=text.encodable(sys.stdout),
    )
