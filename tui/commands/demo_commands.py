# SPDX-License-Identifier: Apache-2.0
"""The verb `demo`.

Everything heavy is imported inside the verb.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from stoker.tui.options.verb_options import json_option
from stoker.tui.render import text

PERFETTO = Path("out/demo.perfetto-trace")


@click.command("demo")
@json_option
@click.option("--keep", is_flag=True, help="Leave the node running.")
@click.option("--cluster", is_flag=True, help="Show three hosts, of which one dies; needs root.")
@click.option(
    "--trace",
    type=click.Choice(["governed", "full"]),
    default="full",
    show_default=True,
    help="Tracing mode of the job.",
)
def demo_command(as_json: bool, keep: bool, cluster: bool, trace: str) -> None:
    """Run a traced job on a private node and print its report.

    The exit code is 0 only if the job succeeded, the tracer counted every kernel launch and
    nothing is left behind. With --cluster the hosts are network namespaces, which are made for it.
    """
    if cluster:
        _cluster(as_json)
        return
    from stoker.tui.demo import demo_job
    from stoker.tui.render import report, tables

    done = demo_job.run(trace=trace, keep=keep, out=PERFETTO)
    if as_json:
        whole = {"schema": tables.SCHEMA, **done.job, "failures": done.failures}
        text.show(tables.render_one(whole))
    else:
        colour, unicode = text.colours(sys.stdout), text.encodable(sys.stdout)
        width = text.page(sys.stdout)
        text.show(report.render(done.job, width=width, colour=colour, unicode=unicode) + "\n")
    for failure in done.failures:
        click.echo(f"stoker: {failure}", err=True)
    sys.exit(1 if done.failures else 0)


def _cluster(as_json: bool) -> None:
    from stoker.tui.demo import cluster_demo
    from stoker.tui.render import story as screen
    from stoker.tui.render import tables

    told = cluster_demo.run()
    if as_json:
        moments = [{"t_ns": each.t_ns, "text": each.text} for each in told.moments]
        figures = {"figures": told.figures, "kernels": told.kernels, "failures": told.failures}
        text.show(tables.render_one({"schema": tables.SCHEMA, "moments": moments, **figures}))
    else:
        title, findings = cluster_demo.TITLE, told.findings
        text.show(screen.render(title, told.hosts, told.moments, findings))
    for failure in told.failures:
        click.echo(f"stoker: {failure}", err=True)
    sys.exit(1 if told.failures else 0)
