# SPDX-License-Identifier: Apache-2.0
"""One line and the right exit code for every way in which a start can fail."""

from __future__ import annotations

import pytest

from stoker.agent.supervise.start_failure import CHARS_MAX, FailedStart, cause, last_error
from stoker.native.errors import Corrupt, Refused, StokerError

NATS = "[7] 2026/01/01 00:00:00.000000 "


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], ""),
        (["", "  "], ""),
        ([f"{NATS}[FTL] listen: bind: taken", f"{NATS}[INF] Shutting down"], "listen: bind: taken"),
        ([f"{NATS}[INF] Starting"], "Starting"),
        (["Traceback", "  File x", "ValueError: no"], "ValueError: no"),
        (['{"level": "error", "event": "cannot start", "error": "x is torn"}', '{"event": "bye"}'],
         "cannot start: x is torn"),
        (['{"level": "info", "event": "ready"}', "[1, 2]"], "[1, 2]"),
    ],
)  # fmt: skip
def test_the_last_error_of_a_log(lines: list[str], said: str) -> None:
    assert last_error(lines) == said


def test_a_long_line_is_cut() -> None:
    assert last_error(["x" * 10_000]) == "x" * CHARS_MAX + "..."


@pytest.mark.parametrize(
    ("name", "code", "line", "kind"),
    [
        ("scheduler", 3, "no", Corrupt),
        ("agent", 2, "no", Refused),
        ("agent", 1, "no", StokerError),
        ("nats-server", 1, f"{NATS}[FTL] listen tcp: bind: denied", Refused),
        ("nats-server", 1, f"{NATS}[FTL] bad config", StokerError),
        ("spawner", -9, "no", StokerError),
    ],
)
def test_the_exit_code_is_that_of_the_cause(
    name: str, code: int, line: str, kind: type[StokerError]
) -> None:
    heard = {"event": "exited", "name": name, "text": "ended: so; starts in 5 s", "failures": 4}
    ended = FailedStart("supervisor", "not ready").after({**heard, "code": code})
    error = cause(ended, [line], hint="Do this")
    assert type(error) is kind
    assert str(error).startswith(f"{name}: ")
    assert str(error).endswith("(ended: so). Do this")
    assert ended.is_corrupt == (code == 3)


def test_who_does_not_get_ready_says_why() -> None:
    ended = FailedStart("supervisor", "not ready after 60 s")
    for name, text in [("agent", "waiting: x"), ("scheduler", "blocked: y"), ("spawner", "ok")]:
        ended = ended.after({"event": "status", "name": name, "text": text})
    for text in ("restart: the log is silent", "ended for a restart: exit code 0"):
        heard = {"event": "exited", "name": "nats-server", "text": text}
        ended = ended.after({**heard, "failures": 0, "code": None})
    assert str(cause(ended, ["whatever"], hint="")) == (
        "supervisor: not ready after 60 s; scheduler says blocked: y; agent says waiting: x;"
        " nats-server: restart: the log is silent"
    )
