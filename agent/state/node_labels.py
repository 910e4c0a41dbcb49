# SPDX-License-Identifier: Apache-2.0
"""The labels of a node, from config.toml and from `stoker up --label`.

An invalid label is refused before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.identity import sealed_json
from stoker.native import durable_file
from stoker.native.errors import BadRequest
from stoker.scheduler.names import check_label
from stoker.scheduler.nouns import LABELS_PER_REPORT_MAX


class GivenLabels(msgspec.Struct, frozen=True):
    """`labels.json`: the labels of `up --label`."""

    labels: tuple[str, ...]


def of_node(configured: Iterable[str], where: StateFolder) -> tuple[str, ...]:
    """Return all labels of the node; BadRequest if one is invalid or there are too many."""
    path = file(where)
    given = state_folder.read_json(path, GivenLabels).labels if path.exists() else ()
    return checked((*configured, *given))


def checked(labels: Iterable[str]) -> tuple[str, ...]:
    """Return valid labels, each once; BadRequest otherwise."""
    each = tuple(dict.fromkeys(check_label(label) for label in labels))
    if len(each) > LABELS_PER_REPORT_MAX:
        raise BadRequest(f"{len(each)} labels, a node gives itself at most {LABELS_PER_REPORT_MAX}")
    return each


def keep(labels: Iterable[str], where: StateFolder) -> None:
    """Store the labels of `up --label`, which replace earlier ones; one empty label stores none."""
    given = GivenLabels(checked(label for label in labels if label))
    durable_file.replace(file(where), sealed_json.encode(given))


def file(where: StateFolder) -> Path:
    """Return the path of `labels.json`."""
    return where.agent / "labels.json"
