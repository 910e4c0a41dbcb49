# SPDX-License-Identifier: Apache-2.0
"""The files of alerts: the book that survives the agent, what was acknowledged, the newest status.

Invariant: each is replaced in one step. The book and the acknowledgements are sealed and belong to
the node's owner, as the status does: series name the jobs of all users.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path

import msgspec

from stoker.agent.alerts.alert import Acknowledgement
from stoker.agent.alerts.judge import AlertBook
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.identity import sealed_json
from stoker.native import durable_file

BOOK, ACKNOWLEDGED, STATUS = "alerts.json", "alerts-acknowledged.json", "alerts.json"
FORMAT = 1


class _Image(msgspec.Struct, frozen=True):
    format: int
    book: AlertBook


class Acknowledged(msgspec.Struct, frozen=True):
    """The acknowledgements: number of an alert, as text -> by whom and when."""

    alerts: dict[str, Acknowledgement] = {}


class RuleStatus(msgspec.Struct, frozen=True):
    """One rule and how many series of this node it watches now."""

    name: str
    metric: str
    series: int


class AlertStatus(msgspec.Struct, frozen=True):
    """The newest judgement; it is in the run folder and ends with the node."""

    t_ns: int
    interval_s: float
    book: AlertBook
    rules: tuple[RuleStatus, ...] = ()
    counters: dict[str, int] = {}


def read_book(folder: Path) -> AlertBook:
    """Return the book in the agent's folder; empty without one. OSError or msgspec.MsgspecError if
    it cannot be read."""
    try:
        data = (folder / BOOK).read_bytes()
    except FileNotFoundError:
        return AlertBook()
    image = sealed_json.decode(data, _Image)
    if image.format != FORMAT:
        raise msgspec.ValidationError(f"it has format {image.format}, this stoker reads {FORMAT}")
    return image.book


def write_book(folder: Path, book: AlertBook) -> None:
    """Replace the book; OSError if the disk is full."""
    durable_file.replace(folder / BOOK, sealed_json.encode(_Image(FORMAT, book)))


def read_acknowledged(folder: Path) -> dict[int, Acknowledgement]:
    """Return what people acknowledged; nothing if the file is not whole."""
    try:
        found = sealed_json.decode((folder / ACKNOWLEDGED).read_bytes(), Acknowledged)
    except (OSError, msgspec.MsgspecError):
        return {}
    return {int(number): each for number, each in found.alerts.items() if number.isdecimal()}


def write_acknowledged(folder: Path, alerts: dict[int, Acknowledgement]) -> None:
    """Replace what people acknowledged; OSError if the disk is full."""
    named = {str(number): each for number, each in alerts.items()}
    durable_file.replace(folder / ACKNOWLEDGED, sealed_json.encode(Acknowledged(named)))


def acknowledge(
    where: StateFolder, firing: Container[int], seen: Mapping[int, Acknowledgement]
) -> None:
    """Add acknowledgements to those of alerts that still fire; the first one of an alert stays.

    Safe beside others that do the same. StokerError or OSError if the disk takes nothing.
    """
    with state_folder.disk_errors(), state_folder.edit_lock(where):
        kept = read_acknowledged(where.agent)
        kept = {id: each for id, each in kept.items() if id in firing}
        write_acknowledged(where.agent, {**seen, **kept})


def read_status(run: Path) -> AlertStatus | None:
    """Return the newest status; None if no agent has judged."""
    try:
        return msgspec.json.decode((run / STATUS).read_bytes(), type=AlertStatus)
    except (OSError, msgspec.MsgspecError):
        return None


def write_status(run: Path, status: AlertStatus) -> None:
    """Replace the status; a full disk is not worth ending for."""
    partial = run / f".{STATUS}.new"
    try:
        partial.touch(mode=0o600)
        partial.write_bytes(msgspec.json.encode(status))
        partial.replace(run / STATUS)
    except OSError:
        return
