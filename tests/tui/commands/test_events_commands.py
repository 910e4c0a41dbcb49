# SPDX-License-Identifier: Apache-2.0
"""The verb `events`: its lines fit the terminal, and `wide` has each whole on one line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stoker.mesh.client.client import Client
from stoker.mesh.client.kept_telemetry import Told
from stoker.tui.calls import telemetry_calls
from stoker.tui.commands import events_commands
from stoker.tui.render import text

WHY = "cannot start python3 train.py: No such file or directory, " + "which is long " * 5
ROW = {"job": 2, "user": "root", "what": "failed", "reason": WHY}


@pytest.fixture(autouse=True)
def _one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(*args: Any, **chosen: Any) -> AsyncIterator[Told]:
        yield Told(1_795_000_000_000_000_000, "events", ROW)

    @asynccontextmanager
    async def opened(state: str | None) -> AsyncIterator[None]:
        yield None

    monkeypatch.setattr(telemetry_calls, "told", told)
    monkeypatch.setattr(Client, "open", opened)
    monkeypatch.setattr(text, "columns", lambda stream: 80)


@pytest.mark.parametrize("form", ["table", "wide"])
def test_a_line_fits_the_terminal_unless_all_of_it_is_wanted(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    events_commands.events_command(["-o", form], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(" ".join(lines).split()).endswith(f"job 2 of root failed {WHY.strip()}")
    assert (max(map(len, lines)) <= 80) == (form == "table")
    assert (len(lines) == 1) == (form == "wide")
