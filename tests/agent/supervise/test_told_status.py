# SPDX-License-Identifier: Apache-2.0
"""The newest line of a process is found beside those of others, and in a log that was cut."""

from __future__ import annotations

import json
from pathlib import Path

from stoker.agent.state import state_folder
from stoker.agent.supervise import told_status


def test_the_newest_line_of_a_process_is_told(tmp_path: Path) -> None:
    where = state_folder.locate(tmp_path / "state")
    assert told_status.newest(where, "agent") == ""
    where.log.mkdir(parents=True)
    rows = [("agent", "waiting: why"), ("agent", "ok"), ("serf", "ended: exit code 1")]
    lines = [json.dumps({"t": 1.5, "process": name, "event": text}) for name, text in rows]
    (where.log / "supervisor.log").write_text("\n".join(['rocess": "agent"}', *lines, '{"pro']))
    assert told_status.newest(where, "agent") == "ok"
    assert told_status.newest(where, "serf") == "ended: exit code 1"
    assert told_status.newest(where, "spawner") == ""
