# SPDX-License-Identifier: Apache-2.0
"""The verbs that start jobs: run, submit.

They alone have the options of a job, whose parsers the other verbs of jobs need not load.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.native.errors import StokerError
from stoker.tui.commands.replies import call, show
from stoker.tui.options.job_options import job_options, request, say_in_flags
from stoker.tui.options.verb_options import node_option, output_option
from stoker.tui.render import nouns, tables, text

if TYPE_CHECKING:
    from stoker.tui.options.script_options import Directive

T = TypeVar("T")
COMMAND = {"allow_interspersed_args": False}


class ScriptCommand(click.Command):
    """A verb whose program may be a script with flags in it; those of the command line go before
    them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given, _, _ = self.make_parser(ctx).parse_args(list(args))
        words = given.get("argv")  # click has a mark of its own for a missing one
        argv: Sequence[str] = words if isinstance(words, tuple | list) else ()
        found = _directives(argv[0]) if argv else []
        if found and "/" not in argv[0]:  # it was found in this folder, and not in the job's PATH
            args = [*args[: len(args) - len(argv)], f"./{argv[0]}", *argv[1:]]
        for directive in found:
            self._check(directive, ctx)
        flags = [flag for directive in found for flag in directive.flags]
        return super().parse_args(ctx, [*flags, *args])

    def _check(self, directive: Directive, ctx: click.Context) -> None:
        """Raise UsageError that names the line of a script whose flags are wrong."""
        alone = click.Context(self, ctx.parent, ctx.info_name)
        try:
            super().parse_args(alone, [*directive.flags, "program"])
        except click.UsageError as error:
            raise click.UsageError(f"{directive.where} {error.format_message()}", ctx) from None


def _directives(program: str) -> list[Directive]:
    """The flags in a script; most programs are no file here, and need no parser of scripts."""
    if not os.path.isfile(program):  # noqa: PTH113 - pathlib is not loaded for this alone
        return []
    from stoker.tui.options import script_options

    return script_options.read(program)


@click.command("run", cls=ScriptCommand, context_settings=COMMAND)
@job_options
@click.option("-i", "--interactive", is_flag=True, help="Pass this terminal's input to the job.")
@node_option
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PROGRAM [ARGS]")
def run_command(
    argv: Sequence[str],
    state: str | None,
    interactive: bool,
    stdin_file: str | None,
    **options: Any,
) -> None:
    """Run a job, stream its output, and exit with its exit code.

    Ctrl-C detaches and leaves the job running. Exit code: the job's own, 128+N after signal N,
    124 at the time limit, 125 if the job's end is unknown, 126 or 127 if it could not be started.
    """
    from stoker.tui.calls import job_start, job_submit

    restarts = options["restart"] in ("on-node-loss", "always")
    again = options["retries"] or options["preemptible"] or restarts
    asked = stdin_file or interactive
    # A job that may run again takes no input; a pipe that merely happens to be there is ignored.
    fd = job_submit.input_of(stdin_file, interactive=interactive) if asked or not again else None
    ready = request(argv, stdin=fd is not None, **options)
    sys.exit(_call(job_start.run(state, ready, fd)))


@click.command("submit", cls=ScriptCommand, context_settings=COMMAND)
@job_options
@node_option
@output_option("name")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PROGRAM [ARGS]")
def submit_command(
    argv: Sequence[str],
    state: str | None,
    output: tables.Output,
    stdin_file: str | None,
    **options: Any,
) -> None:
    """Submit a job and print its number, or 5-14 for the jobs of an array."""
    from stoker.tui.calls import job_submit

    fd = job_submit.input_of(stdin_file) if stdin_file else None
    ready = request(argv, stdin=fd is not None, **options)
    name, rows = _call(job_submit.submit(state, ready, fd, rows=output != "name"))
    if output == "name":
        text.show(f"{name}\n")
    else:
        show(nouns.JOBS, rows, output, alone=True)


def _call(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a verb's requests; a refusal of the job names its flags."""
    try:
        return call(coroutine)
    except StokerError as error:
        say_in_flags(error, click.get_current_context().command.params)
        raise
