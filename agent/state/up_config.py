# SPDX-License-Identifier: Apache-2.0
"""The settings of `stoker up` itself, below its options and variables: `[up]` of config.toml.

A setting that a process reads from its environment reaches it as that variable, which the
environment of `up` goes before.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from stoker.native import setting
from stoker.native.setting import mark

LOG_BYTES_MIN = 1 << 16
COMMAND_LOG_BYTES_MIN = 1 << 20


class UpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[up]` of config.toml."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535), mark("--port")] | None = None
    """Port of the broker on 127.0.0.1; unset: the one it had, at first a free one."""
    root_jobs_as: Annotated[str, mark("--root-jobs-as")] | None = None
    """Unix user that root's own jobs run as; unset: as before, at first $SUDO_USER or nobody."""
    log_max_bytes: Annotated[int, msgspec.Meta(ge=LOG_BYTES_MIN), mark("--log-max-bytes")] = (
        64 << 20
    )
    """Log size of one process, older half included."""
    nats_server: Annotated[str, mark(variable="STOKER_NATS_SERVER")] | None = None
    """Another nats-server than the installed one."""
    command_log_max_bytes: (
        Annotated[
            int,
            msgspec.Meta(ge=COMMAND_LOG_BYTES_MIN),
            mark(variable="STOKER_SCHEDULER_LOG_MAX_BYTES"),
        ]
        | None
    ) = None
    """Size of the command log, where decisions are kept; unset: 64 MiB."""


def variables(config: UpConfig) -> dict[str, str]:
    """Return the settings that processes read from their environment, as its variables."""
    named = {
        field.name: setting.of(field.type).variable for field in msgspec.structs.fields(UpConfig)
    }
    return {
        variable: str(getattr(config, name))
        for name, variable in named.items()
        if variable and getattr(config, name) is not None
    }
