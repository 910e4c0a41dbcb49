# SPDX-License-Identifier: Apache-2.0
"""A program that supervises the real spawner and watchdog alone; its argument has the settings."""

from __future__ import annotations

import sys

import msgspec

from stoker.agent.state.state_folder import locate
from stoker.agent.supervise import supervisor
from stoker.agent.supervise.process_table import programs

if __name__ == "__main__":
    settings = msgspec.json.decode(sys.argv[1], type=supervisor.SupervisorSettings)
    table = programs(locate(settings.state), allow_root=False)
    supervisor.main([p for p in table if p.spec.name in ("spawner", "watchdog")])
