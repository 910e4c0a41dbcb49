# SPDX-License-Identifier: Apache-2.0
"""The states of attempts that readers of output see, at an end that the core does not know yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.agent.jobs.attempt_states import attempt_lookup
from stoker.agent.jobs.attempts import AttemptPhase
from stoker.scheduler.nouns import TaskKey

KEY = TaskKey(7, 1, 0)


@pytest.mark.parametrize(
    ("phase", "told", "live"),
    [
        (AttemptPhase.RUNNING, None, True),
        (AttemptPhase.RUNNING, "end", False),
        (AttemptPhase.SETTLING, "end", False),
        (None, None, False),
    ],
)
def test_an_attempt_is_live_until_the_spawner_tells_its_end(
    phase: AttemptPhase | None, told: str | None, live: bool
) -> None:
    core = cast(Any, SimpleNamespace(phase=lambda key: phase))
    folders = cast(Any, SimpleNamespace(silent=lambda key: False, dropped=lambda key, end: 0))
    lookup = attempt_lookup(core, folders, cast(Any, lambda key: told), cast(Any, None))
    assert lookup.live(KEY) == live
    assert lookup.ended(KEY) == (told is not None)
