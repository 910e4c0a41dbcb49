# SPDX-License-Identifier: Apache-2.0
"""All tables of config.toml: the struct of each, and the check of what its types cannot say.

The structs that the processes read are the only declaration of a setting: `stoker config`, the
template and the operator's table come from them. Pure.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

from stoker.agent.agent_settings import Config, NodeConfig
from stoker.agent.alerts import rule
from stoker.agent.alerts.rule import AlertRule
from stoker.agent.devices.declared import Declaration
from stoker.agent.power.plan import rules
from stoker.agent.state import metrics_config, node_labels, otlp_config
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.agent.state.up_config import UpConfig
from stoker.mesh.broker import budgets, spool_bounds
from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.broker.spool_bounds import SpoolBounds
from stoker.mesh.recording import ring_files
from stoker.mesh.replica import cluster_limits
from stoker.mesh.server import level_pin, watts_file
from stoker.mesh.server.level_pin import LevelPin
from stoker.mesh.server.watts_file import StatedWatts
from stoker.mesh.wire.request_signature import RequestPolicy
from stoker.native.setting import bare
from stoker.scheduler.core import Limits

_Limit = Annotated[int, msgspec.Meta(ge=1, le=cluster_limits.LIMIT_MAX)]
LimitsTable = msgspec.defstruct(
    "LimitsTable",
    [(name, _Limit, default) for name, default in Limits._field_defaults.items()],
    frozen=True,
    forbid_unknown_fields=True,
)
"""`[limits]` of config.toml; the core's own tuple has no names in a file."""

TABLES: Mapping[str, Any] = {
    "up": UpConfig,
    **{field.name: field.type for field in msgspec.structs.fields(Config)},
    "device": list[Declaration],
    "alert": list[AlertRule],
    "models": dict[str, StatedWatts],
    "budgets": Budgets,
    "spool": SpoolBounds,
    "requests": RequestPolicy,
    "limits": LimitsTable,
    "upgrade": LevelPin,
}
"""Name of each table -> its type."""


def _check_otlp(config: OtlpConfig) -> None:
    if config.endpoint:
        otlp_config.target(config)


def _check_node(config: NodeConfig) -> None:
    node_labels.checked(config.labels)


def _check_limits(limits: msgspec.Struct) -> None:
    cluster_limits.changed(Limits(), msgspec.structs.asdict(limits))


CHECKS: Mapping[str, Callable[[Any], None]] = {
    "node": _check_node,
    "otlp": _check_otlp,
    "metrics": metrics_config.check,
    "recording": ring_files.check,
    "alert": rule.check,
    "alerts": rule.check_settings,
    "power": rules.check_numbers,
    "budgets": budgets.check,
    "spool": spool_bounds.check,
    "models": watts_file.check,
    "limits": _check_limits,
    "upgrade": level_pin.check,
}
"""Name of a table -> what raises BadRequest for values that fit their types and make no sense."""


class Field(NamedTuple):
    """One setting as its struct declares it."""

    name: str
    annotation: Any
    default: Any
    """`msgspec.NODEFAULT` for a setting that must be given."""
    text: str


def fields(struct: type[msgspec.Struct]) -> Iterator[Field]:
    """Yield the settings of a struct in its order, with the descriptions that follow them there."""
    told = _descriptions(Limits if struct is LimitsTable else struct)
    for field in msgspec.structs.fields(struct):
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        yield Field(field.name, field.type, default, told.get(field.name, ""))


def struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """Return the struct that a setting is, or of which it is a list or a table; None if it is
    neither."""
    kind = bare(annotation)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if get_origin(kind) in (list, tuple, dict):
        return struct_in(next(each for each in reversed(get_args(kind)) if each is not ...))
    return None


def _descriptions(declared: type) -> dict[str, str]:
    """Return what the source of a class says below each of its fields."""
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(declared))).body
    assert isinstance(found, ast.ClassDef)
    told: dict[str, str] = {}
    for field, text in zip(found.body, found.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(text.value, ast.Constant)
            told[field.target.id] = " ".join(str(text.value.value).split())
    return told
