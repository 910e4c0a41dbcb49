# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's variables of one signal beside metrics, over those of all signals and `[otlp]`.

Names and meanings: OpenTelemetry specification 1.50, as in `otlp_environment.py`. Pure. Invariant:
a value that is not taken changes nothing and has a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from stoker.agent.state.otlp_config import PATH, OtlpConfig, target
from stoker.agent.state.otlp_environment import COMMON, ENDPOINTS, Change
from stoker.native.errors import BadRequest

_ONE = "OTEL_EXPORTER_OTLP_"
DISABLED = "OTEL_SDK_DISABLED"


class OtlpSignal(NamedTuple):
    """A signal: its name in variables, as messages have it, and the path of its requests."""

    name: str
    said: str
    path: str

    @property
    def own(self) -> str:
        """The beginning of the variables of this signal alone."""
        return f"{_ONE}{self.name}_"

    @property
    def exporter(self) -> str:
        """The variable that chooses its exporter."""
        return f"OTEL_{self.name}_EXPORTER"

    @property
    def taken(self) -> tuple[str, ...]:
        """The variables of this signal that are taken."""
        return (f"{self.own}ENDPOINT", *(self.own + each.end for each in COMMON), self.exporter)


class Destination(NamedTuple):
    """A collector, and the path of the requests of a signal."""

    config: OtlpConfig
    path: str


def destination(
    signal: OtlpSignal, file: OtlpConfig, environment: Mapping[str, str], refused: list[str]
) -> Destination | None:
    """Return where a signal goes; None without a destination. Sentences are added to `refused`."""
    changes = _changes(signal, environment, refused)
    config, path = _endpoint(signal, msgspec.structs.replace(file, **changes), environment)
    if not config.endpoint:
        return None
    try:
        found = target(config).path
    except BadRequest as error:
        refused.append(f"{signal.said} are not exported: {error.message}")
        return None
    return Destination(config, path or found.removesuffix(PATH) + signal.path)


def chosen(
    signal: OtlpSignal, environment: Mapping[str, str], refused: list[str], *, usual: bool
) -> bool:
    """True if a signal is exported; `usual` where no variable says."""
    if environment.get(DISABLED, "").strip().lower() == "true":
        return False
    names = [each.strip() for each in environment.get(signal.exporter, "").split(",")]
    others = [each for each in names if each not in ("", "otlp", "none")]
    if others:
        refused.append(f"{signal.exporter} is not taken: {others[0]!r} is not otlp or none")
    return "none" not in names and (usual or "otlp" in names)


def _changes(signal: OtlpSignal, environment: Mapping[str, str], refused: list[str]) -> Change:
    """Return what variables of all signals and of this one change; those of all signals are judged
    where metrics are configured."""
    changes: Change = {}
    for start in (_ONE, signal.own):
        for each in COMMON:
            text = environment.get(start + each.end, "").strip()
            try:
                changes |= each.change(text) if text else {}
            except ValueError as error:
                if start == signal.own:
                    refused.append(f"{start + each.end} is not taken: {error}")
    return changes


def _endpoint(
    signal: OtlpSignal, config: OtlpConfig, environment: Mapping[str, str]
) -> tuple[OtlpConfig, str]:
    """Return the configuration with its endpoint, and the path if the endpoint's own is taken as it
    is."""
    own = environment.get(f"{signal.own}ENDPOINT", "").strip()
    one = environment.get(ENDPOINTS[0], "").strip()
    made = msgspec.structs.replace(config, endpoint=own or one or config.endpoint)
    if not own or config.protocol == "grpc":
        return made, ""
    try:
        path = target(made).path
    except BadRequest:
        return made, ""
    return made, "/" if path == PATH and not own.endswith(PATH) else path
