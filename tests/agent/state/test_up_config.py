# SPDX-License-Identifier: Apache-2.0
"""Settings of `up` that reach processes as variables."""

from __future__ import annotations

from stoker.agent.state import up_config
from stoker.agent.state.up_config import UpConfig


def test_only_what_is_set_becomes_a_variable() -> None:
    assert up_config.variables(UpConfig(port=1)) == {}
    assert up_config.variables(UpConfig(nats_server="/x", command_log_max_bytes=1 << 20)) == {
        "STOKER_NATS_SERVER": "/x",
        "STOKER_SCHEDULER_LOG_MAX_BYTES": "1048576",
    }
