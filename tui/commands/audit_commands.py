# SPDX-License-Identifier: Apache-2.0
"""The verb `audit`: who changed what, checked by the reader and not by those who are audited.

Everything heavy is imported inside the verbs.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.native.errors import BadRequest, Denied, NotFound, Refused
from stoker.tui.commands.lazy_group import LazyGroup
from stoker.tui.commands.replies import call, show, show_one
from stoker.tui.options.verb_options import node_option, output_option, read_options
from stoker.tui.render import nouns, tables, units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoker.mesh.audit.checkpoint_checks import CheckpointChecks, CheckpointFindings
    from stoker.mesh.audit.trail import TrailEntry
    from stoker.mesh.audit.trail_rows import TrailRow
    from stoker.mesh.client.read_choice import ReadChoice
    from stoker.mesh.log.log_archive import SegmentWriter
    from stoker.tui.calls.audit_calls import Audited, Checkpoint, Follow

FILE = click.Path(path_type=Path)
backup_option = click.option(
    "--backup",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The backup that the cluster was restored from.",
)
VERBS: dict[str, tuple[str, str]] = {
    "export": ("stoker.tui.commands.audit_commands", "Write all entries into a file"),
    "show": ("stoker.tui.commands.audit_commands", "List who changed what"),
    "verify": ("stoker.tui.commands.audit_commands", "Check all entries since the genesis"),
}
"""Verb -> (module that defines a click command audit_<name>_command, one-line help)."""


@click.group("audit", cls=LazyGroup, table=VERBS, prefix="audit_")
def audit_command() -> None:
    """Show and check the cluster's log: each change, who asked for it, who signed it.

    For administrators. The entries are judged here, by their signatures and their chain.
    """


@click.command("show")
@click.argument("file", type=FILE, required=False)
@click.option("--user", default="", metavar="NAME", help="Only what this user asked for.")
@click.option("--about", default="", metavar="NAME", help="Only this job, node, user or queue.")
@click.option("--after", default=0, metavar="ENTRY", help="Only entries behind this one.")
@click.option("--all", "routine", is_flag=True, help="Add reports, outcomes and snapshots.")
@backup_option
@node_option
@read_options
@output_option("table")
def audit_show_command(
    *, file: Path | None, user: str, about: str, after: int, routine: bool, backup: Path | None,
    state: str | None, reads: ReadChoice, output: tables.Output,
) -> None:  # fmt: skip
    """List who changed what, from the log or from FILE, the oldest first."""
    import msgspec

    from stoker.mesh.audit import trail_rows

    rows: list[TrailRow] = []

    def wanted(taken: TrailEntry) -> Iterator[TrailRow]:
        for row in trail_rows.rows(taken) if taken.index > after else ():
            if (routine or not row.routine) and user in ("", row.user) and about in ("", row.about):
                yield row

    _audited(file, state, reads, backup, follow=lambda taken: rows.extend(wanted(taken)))
    show(nouns.TRAIL, msgspec.to_builtins(rows), output)


@click.command("verify")
@click.argument("file", type=FILE, required=False)
@click.option("--checkpoints", type=FILE, metavar="PATH",
              help="A file that keeps the end of each audit.")  # fmt: skip
@click.option("--signed", type=FILE, multiple=True, metavar="PATH",
              help="Signed checkpoints of a scheduler: its archive/checkpoints.")  # fmt: skip
@click.option("--key", "keys", multiple=True, metavar="KEY",
              help="A scheduler's public key that you have from elsewhere.")  # fmt: skip
@backup_option
@node_option
@read_options
@output_option("table")
def audit_verify_command(
    *, file: Path | None, checkpoints: Path | None, signed: tuple[Path, ...],
    keys: tuple[str, ...], backup: Path | None, state: str | None, reads: ReadChoice,
    output: tables.Output,
) -> None:  # fmt: skip
    """Check all entries since the genesis, as the log or FILE has them.

    Each must be signed by the scheduler that led, follow the one before, and be of a term that a
    majority pledged. Their effects are made again and compared with the scheduler's. With
    --checkpoints the ends of earlier audits must be in the trail, and this one's is added: keep
    that file where no scheduler writes. The checkpoints that schedulers signed must be in the trail
    as well; --signed adds those of other servers, and --key requires some of this key. Exit code 0
    only if all holds.
    """
    import msgspec

    from stoker.tui.calls import audit_calls

    earlier = audit_calls.checkpoints(checkpoints) if checkpoints is not None else []
    checks = _checks(signed, keys)
    found = _audited(file, state, reads, backup, earlier=earlier, checks=checks)
    if checkpoints is not None:
        try:
            audit_calls.add_checkpoint(checkpoints, found)
        except OSError as error:
            raise Denied(f"{checkpoints}: {error.strerror}") from None
    row = msgspec.to_builtins(found)
    show_one(nouns.AUDITS, row, output, lambda: "".join(f"{line}\n" for line in _lines(found)))


def _checks(paths: tuple[Path, ...], keys: tuple[str, ...]) -> CheckpointChecks:
    from stoker.mesh.audit.checkpoint_checks import CheckpointChecks
    from stoker.mesh.log import signed_checkpoint

    checks = CheckpointChecks((), keys)
    for path in paths:
        found = signed_checkpoint.read(path)
        if not found:
            raise NotFound(f"{path} has no signed checkpoints")
        checks.add(found)
    return checks


@click.command("export")
@click.argument("file", type=FILE)
@node_option
@read_options
def audit_export_command(*, file: Path, state: str | None, reads: ReadChoice) -> None:
    """Write all entries since the genesis into FILE, which `show` and `verify` read.

    It has what jobs were submitted with, their environment too: only its owner may read it.
    """
    from stoker.mesh.log import log_archive

    if file.exists():
        raise Refused(f"{file} exists", hint="A trail is never overwritten; remove it first")
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Denied(f"{file}: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as out:
            count = asyncio.run(_export(state, reads, log_archive.SegmentWriter(out), file))
    except BaseException:  # a part of a trail would read like one that lost its end
        file.unlink()
        raise
    click.echo(f"{file}: {count} entries")


async def _export(state: str | None, reads: ReadChoice, out: SegmentWriter, file: Path) -> int:
    from stoker.mesh.client.client import Client
    from stoker.mesh.log import signed_checkpoint
    from stoker.tui.calls import audit_calls

    count = 0
    async with Client.open(state, reads=reads) as client:
        async for view in client.trail():
            if view.checkpoints:
                found = signed_checkpoint.encode(audit_calls.signed_of(view))
                audit_calls.beside(file).write_bytes(found)
            for each in view.entries:
                out.add(each.place, each.data)
            count += len(view.entries)
    return count


def _audited(
    file: Path | None, state: str | None, reads: ReadChoice, backup: Path | None, *,
    follow: Follow | None = None, earlier: list[Checkpoint] | None = None,
    checks: CheckpointChecks | None = None,
) -> Audited:  # fmt: skip
    """TrailAudit the trail of a file, or of a scheduler."""
    from stoker.tui.calls import audit_calls

    if file is not None and (reads.at or reads.stale):
        raise BadRequest("a file is read here: --at and --stale are about schedulers")
    base = None
    if backup is not None:
        from stoker.mesh.replica import backup_file

        base = backup_file.read(backup).state
    audit = audit_calls.TrailAudit(earlier or [], follow, base, checks)
    if file is not None:
        return audit_calls.of_file(file, audit)
    return call(audit_calls.of_scheduler(state, reads, audit))


def _lines(found: Audited) -> Iterator[str]:
    yield f"cluster     {found.cluster}"
    yield f"source      {found.source}"
    since = f"entry {found.behind}, which the backup has" if found.behind else "the genesis"
    count = found.index - found.behind
    yield f"entries     {count}, each signed and in its place since {since}"
    for number, count in sorted(found.signed.items()):
        yield f"signed      {count} by scheduler {number}"
    for reason, count in sorted(found.passed.items()):
        yield f"passed over {count}: {reason}"
    yield f"time        {units.moment(found.first_t_ns)} to {units.moment(found.last_t_ns)}"
    yield f"hash        {found.hash}"
    yield f"effects     {found.trail}"
    if found.compared:
        yield f"checkpoints {found.compared} compared, all agree"
    yield from _signed_lines(found.checkpoints)


def _signed_lines(found: CheckpointFindings) -> Iterator[str]:
    if found.agree:
        yield (
            f"signed      {found.agree} checkpoints agree, the newest of entry {found.newest} at"
            f" {units.moment(found.t_ns)}"
        )
        yield from (f"            by {key}" for key in found.keys)
    if found.unknown:
        yield f"unknown     {found.unknown} checkpoints of keys that are not in the roster"
    if not found.pinned:
        yield "trusts      the roster that the trail itself has; --key pins a scheduler's key"
