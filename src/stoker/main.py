# SPDX-License-Identifier: Apache-2.0
"""The command line's root: a table of verbs, each loaded only when it is called.

A StokerError becomes one line on stderr and its exit code; any other exception is a defect and
shows its traceback.
"""

from __future__ import annotations

import io
import sys

import click

from stoker.tui.commands.lazy_group import LazyGroup

VERBS: dict[str, tuple[str, str]] = {
    "up": ("stoker.agent.commands.node_commands", "Start a node: broker, scheduler, agent"),
    "down": ("stoker.agent.commands.node_commands", "Stop the node and leave nothing behind"),
    "user": ("stoker.agent.commands.node_commands", "Give another local user a key"),
    "install-service": ("stoker.agent.commands.node_commands", "Write hardened systemd units"),
    "completion": ("stoker.agent.commands.node_commands", "Completion for bash, zsh or fish"),
    "config": ("stoker.agent.commands.config_commands", "Settings of the node: init, print, check"),
    "doctor": ("stoker.agent.commands.node_commands", "Check what works on this machine"),
    "run": ("stoker.tui.commands.start_commands", "Run a job and stream its output"),
    "submit": ("stoker.tui.commands.start_commands", "Submit a job and print its number"),
    "jobs": ("stoker.tui.commands.job_commands", "List jobs"),
    "job": ("stoker.tui.commands.job_commands", "Show a job"),
    "logs": ("stoker.tui.commands.job_commands", "Print a job's output"),
    "cancel": ("stoker.tui.commands.job_commands", "Stop jobs"),
    "rm": ("stoker.tui.commands.job_commands", "Delete jobs that are over, and their output"),
    "wait": ("stoker.tui.commands.job_commands", "Wait until jobs end"),
    "explain": ("stoker.tui.commands.job_commands", "Tell why a job waits, or ended as it did"),
    "eff": ("stoker.tui.commands.job_commands", "Tell how well jobs use what they hold"),
    "waste": ("stoker.tui.commands.waste_commands", "List device time held and not used"),
    "context": ("stoker.tui.commands.context_commands", "Show or choose the node to talk to"),
    "audit": ("stoker.tui.commands.audit_commands", "Show and check who changed what"),
    "cluster": ("stoker.tui.commands.cluster_commands", "Show the cluster; change its limits"),
    "queue": ("stoker.tui.commands.queue_commands", "Queues: list, set, remove, quota"),
    "nodes": ("stoker.tui.commands.node_commands", "List nodes"),
    "node": ("stoker.tui.commands.node_commands", "Show, label, taint, drain or remove a node"),
    "devices": ("stoker.tui.commands.device_commands", "List devices and their readings"),
    "metrics": ("stoker.tui.commands.device_commands", "Show one device's readings"),
    "cordon": ("stoker.tui.commands.cordon_commands", "Keep new jobs off a device"),
    "uncordon": ("stoker.tui.commands.cordon_commands", "Let jobs onto a device again"),
    "drain": ("stoker.tui.commands.drain_commands", "Move a node's jobs off it; no new ones"),
    "undrain": ("stoker.tui.commands.drain_commands", "Let jobs onto a drained node again"),
    "power": ("stoker.agent.commands.power_commands", "Show this node's power budget and caps"),
    "alerts": ("stoker.agent.commands.alert_commands", "List alerts of this node; acknowledge"),
    "top": ("stoker.tui.commands.top_commands", "Watch nodes, devices, jobs and kernels live"),
    "record": ("stoker.tui.commands.record_commands", "Record the past minutes into a file"),
    "replay": ("stoker.tui.commands.record_commands", "Tell what a recording holds"),
    "events": ("stoker.tui.commands.events_commands", "Tell what happened, and what happens now"),
    "demo": ("stoker.tui.commands.demo_commands", "Run a traced job and print its report"),
    "trace": ("stoker.tui.commands.trace_commands", "Write a job's timeline to a file"),
    "probe": ("stoker.agent.commands.probe_commands", "Run an ad-hoc BCC probe"),
    "bench": ("stoker.tui.commands.bench_commands", "Measure what stoker costs"),
    "chaos": ("stoker.tui.commands.chaos_commands", "Break a cluster made for it, and judge it"),
    "sim": ("stoker.tui.commands.sim_commands", "Replay traces; simulate cards"),
}
"""Verb -> (module that defines a click command of that name, one-line help)."""


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from stoker import __version__

        click.echo(f"stoker {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, table=VERBS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version and exit.",
)
def cli() -> None:
    """Run GPU jobs, and know to the nanosecond what each GPU is doing and why."""


def _show(error: click.ClickException) -> None:
    """Print what click says of wrong words, in lines that fit the terminal."""
    from stoker.tui.render import text

    said = io.StringIO()
    error.show(said)
    width = text.columns(sys.stderr)
    for line in said.getvalue().splitlines():
        click.echo(text.wrap(line, width, 2) if width else line, err=True)


def main() -> None:
    """Entry point of the `stoker` script."""
    try:
        cli.main(prog_name="stoker", standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        _show(error)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if code is None:
            raise
        from stoker.tui.render import text  # imported late; the message may hold untrusted names

        text.tell(error)
        sys.exit(code)
