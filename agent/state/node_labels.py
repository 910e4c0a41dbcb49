# SPDX-License-Identifier: Apache-2.0
"""The labels a node gives itself: those of config.toml and those of `stoker up --label`.

Owns that a label which cannot be one is refused before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.identity import sealed_json
from stoker.native.errors import BadRequest
from stoker.scheduler.names import check_label
from stoker.scheduler.nouns import LABELS_PER_REPORT_MAX


class GivenLabels(msgspec.Struct, frozen=True):
    """`labels.json`: what `up --label` gave."""

    labels: tuple[str, ...]


def of_node(configured: Iterable[str], where: StateFolder) -> tuple[str, ...]:
    """All of them; BadRequest for one that is none, or for too many."""
    path = file(where)
    given = state_folder.read_json(path, GivenLabels).labels if path.exists() else ()
    return checked((*configured, *given))


def checked(labels: Iterable[str]) -> tuple[str, ...]:
    """These labels, each once."""
    each = tuple(dict.fromkeys(check_label(label) for label in labels))
    if len(each) > LABELS_PER_REPORT_MAX:
        raise BadRequest(f"{len(each)} labels, a node gives itself at most {LABELS_PER_REPORT_MAX}")
    return each


def keep(labels: Iterable[str], where: StateFolder) -> None:
    """What `up --label` gave, until it gives others; a single empty label gives none."""
    given = GivenLabels(checked(label for label in labels if label))
    state_folder.write_file(file(where), sealed_json.encode(given))


def file(where: StateFolder) -> Path:
    """Where they are kept."""
    return where.agent / "labels.json"
