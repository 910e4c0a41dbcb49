# SPDX-License-Identifier: Apache-2.0
"""The value of every setting and where it comes from: default, file, environment, option.

Pure. Invariant: what goes before the file is named with the value that it gives, and the value of a
secret setting is never shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

import msgspec

from stoker.agent.config import lines
from stoker.agent.config.faults import Keys
from stoker.agent.config.tables import TABLES, fields, struct_in
from stoker.agent.state import otlp_environment
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.native import setting
from stoker.native.errors import BadRequest
from stoker.native.setting import HIDDEN, bare

DEFAULT, FILE = "default", "file"


class Given(NamedTuple):
    """A value that goes before the file, or is added to it."""

    value: Any
    source: str


class Setting(NamedTuple):
    """One setting as the node has it."""

    key: str
    value: Any
    """None for one that is unset; HIDDEN for a secret that is set."""
    source: str
    default: Any

    @property
    def shown(self) -> str:
        """The value as the file would have it; `-` for one that is unset."""
        return "-" if self.value is None else json.dumps(self.value, ensure_ascii=False)


def values(
    tables: Mapping[str, Any], sources: Mapping[str, str], given: Mapping[str, Given]
) -> Iterator[Setting]:
    """Yield every setting of a node. `tables`: those of the file, without a fault; `sources`: where
    the values of a table are from, if that is not the file; `given`: key -> what goes before it."""
    for name, annotation in TABLES.items():
        reading = _Reading(sources.get(name, FILE), given)
        yield from reading.of((name,), annotation, tables.get(name))


class _Reading:
    """The values of one table."""

    def __init__(self, source: str, given: Mapping[str, Given]) -> None:
        self._source, self._given = source, given

    def of(
        self,
        path: Keys,
        annotation: Any,
        value: Any,
        default: Any = None,
        *,
        secret: bool = False,
    ) -> Iterator[Setting]:
        """Yield the settings at and below a path."""
        kind = bare(annotation)
        secret = secret or setting.of(annotation).secret
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            for field in fields(kind):
                one, usual = (value or {}).get(field.name), field.default
                yield from self.of((*path, field.name), field.annotation, one, usual, secret=secret)
        elif value and struct_in(kind) is not None:
            inner = next(each for each in reversed(get_args(kind)) if each is not ...)
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield from self.of((*path, key), inner, each, secret=secret)
        else:
            yield self._one(lines.dotted(path), value, default, secret=secret)

    def _one(self, key: str, value: Any, default: Any, *, secret: bool) -> Setting:
        usual = None if default is msgspec.NODEFAULT else msgspec.to_builtins(default)
        found = Given(usual, DEFAULT) if value is None else Given(value, self._source)
        found = self._given.get(key, found)
        return Setting(key, shown(found.value, secret=secret), found.source, usual)


def shown(value: Any, *, secret: bool) -> Any:
    """Return a value as it may be shown."""
    if secret and value:
        return dict.fromkeys(value, HIDDEN) if isinstance(value, dict) else HIDDEN
    return setting.shown_url(value) if isinstance(value, str) and "://" in value else value


def of_variables(tables: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Given]:
    """Return the settings that the environment gives: those with a variable of their own, and
    OpenTelemetry's."""
    own = {
        f"{name}.{field.name}": (setting.of(field.annotation).variable, field.annotation)
        for name, annotation in TABLES.items()
        for field in _fields(annotation)
    }
    found = {
        key: Given(_taken(environment[variable], annotation), variable)
        for key, (variable, annotation) in own.items()
        if environment.get(variable)
    }
    return found | _of_otlp(msgspec.convert(tables.get("otlp", {}), OtlpConfig), environment)


def _taken(text: str, annotation: Any) -> Any:
    """Return the value of a variable, or its text if it is none: its process says so."""
    try:
        return msgspec.convert(text, annotation, strict=False)
    except msgspec.ValidationError:
        return text


def _of_otlp(config: OtlpConfig, environment: Mapping[str, str]) -> dict[str, Given]:
    made, _ = otlp_environment.configured(config, environment)
    found = {}
    for name in OtlpConfig.__struct_fields__:
        if getattr(made, name) != getattr(config, name):
            source = _variable_of(config, name, environment)
            found[f"otlp.{name}"] = Given(getattr(made, name), source)
    return found


def _variable_of(config: OtlpConfig, field: str, environment: Mapping[str, str]) -> str:
    """Return the variable that changes this field: the last one that does so by itself."""
    for name in reversed(otlp_environment.TAKEN):
        if name in environment:
            alone, _ = otlp_environment.configured(config, {name: environment[name]})
            if getattr(alone, field) != getattr(config, field):
                return name
    return "environment"


def _fields(annotation: Any) -> Iterator[Any]:
    kind = bare(annotation)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from fields(kind)


def converted(tables: Mapping[str, Any], name: str) -> Any:
    """Return one table of a file without faults as its struct."""
    try:
        return msgspec.convert(tables.get(name, {}), TABLES[name])
    except msgspec.ValidationError as error:  # whoever reads tables has looked for faults
        raise BadRequest(f"config.toml: {name}: {error}") from None
