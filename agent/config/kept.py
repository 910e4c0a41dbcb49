# SPDX-License-Identifier: Apache-2.0
"""The options that a node was told and keeps, and those that its file gives `up`.

Invariant: a start takes nothing of a file with a fault; the first one is named, with its line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stoker.agent.config import faults, values
from stoker.agent.config.values import FILE, Given, Setting
from stoker.agent.power import rules_file
from stoker.agent.state import metrics_config, node_labels, state_folder
from stoker.agent.state.metrics_config import GivenListener
from stoker.agent.state.node_labels import GivenLabels
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.state.up_config import UpConfig
from stoker.mesh.broker import users
from stoker.native.errors import BadRequest

NAME = "config.toml"


class KeptOptions(NamedTuple):
    """The values that go before a node's file."""

    given: Mapping[str, Given]
    tables: Mapping[str, Any]
    """Whole tables that replace those of the file."""
    sources: Mapping[str, str]
    """Table -> the source of its values, if that is not the file."""


def path(where: StateFolder) -> Path:
    """Return the path of a node's file."""
    return where.root / NAME


def checked(file: Path) -> dict[str, Any]:
    """Return the tables of a file; BadRequest with the first of its faults."""
    tables, found = faults.read(file)
    if found:
        first, *more = found
        many = f"{len(more)} more fault{'s' if len(more) > 1 else ''}: " if more else ""
        raise BadRequest(first.at(file), hint=f"{many}`stoker config validate` checks the file")
    return tables


def up_config(where: StateFolder) -> UpConfig:
    """Return what the file gives `up`; BadRequest if anything in the file is wrong."""
    found: UpConfig = values.converted(checked(path(where)), "up")
    return found


def settings(
    where: StateFolder, tables: Mapping[str, Any], environment: Mapping[str, str]
) -> list[Setting]:
    """Return every setting as `stoker up` in this environment, without options, has it."""
    found = _kept(where, tables)
    given = {**found.given, **values.of_variables(tables, environment)}
    return list(values.values({**tables, **found.tables}, found.sources, given))


def _kept(where: StateFolder, tables: Mapping[str, Any]) -> KeptOptions:
    given = dict(_of_options(where, tables))
    sources = {"limits": f"{FILE}, for a new cluster"} if where.genesis.exists() else {}
    rules = rules_file.read(where.agent / rules_file.NAME)
    if rules is None:
        return KeptOptions(given, {}, sources)
    power = msgspec.to_builtins(rules)
    return KeptOptions(given, {"power": power}, {**sources, "power": "stoker power"})


def _of_options(where: StateFolder, tables: Mapping[str, Any]) -> dict[str, Given]:
    """Return what options said that are kept. The file goes before the port and the user that were
    kept, because `up` takes these from it."""
    found: dict[str, Given] = {}
    if (file := metrics_config.file(where)).exists():
        listen = state_folder.read_json(file, GivenListener).listen
        found["metrics.listen"] = Given(listen, "--metrics, kept")
    if (file := node_labels.file(where)).exists():
        own, kept = tables.get("node", {}).get("labels", []), _labels(file)
        if kept:
            source = f"{FILE} and --label, kept" if own else "--label, kept"
            found["node.labels"] = Given([*own, *kept], source)
    up = tables.get("up", {})
    if "port" not in up and where.cluster.exists():
        port = state_folder.read_json(where.cluster, ClusterFile).port
        found |= {"up.port": Given(port, "kept")} if port else {}
    if "root_jobs_as" not in up and os.geteuid() == 0 and where.users.exists():
        found |= _mapping(where)
    return found


def _labels(file: Path) -> tuple[str, ...]:
    return state_folder.read_json(file, GivenLabels).labels


def _mapping(where: StateFolder) -> dict[str, Given]:
    admin = users.load(where.users).get("admin")
    return {} if admin is None else {"up.root_jobs_as": Given(users.describe(admin), "kept")}
