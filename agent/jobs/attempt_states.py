# SPDX-License-Identifier: Apache-2.0
"""The states of attempts for readers of output, from the core, the spawner and the folders."""

from __future__ import annotations

from collections.abc import Callable

from stoker.agent.jobs.attempts import OVER
from stoker.agent.jobs.job_folders import JobFolders
from stoker.agent.jobs.job_output import AttemptLookup, Changed
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.jobs.spawner_messages import Exited
from stoker.scheduler.nouns import TaskKey


def attempt_lookup(
    core: NodeCore,
    folders: JobFolders,
    exited: Callable[[TaskKey], Exited | None],
    changed: Changed,
) -> AttemptLookup:
    """Return the answers about attempts; `exited` returns an end that the log does not have yet."""

    def live(key: TaskKey) -> bool:
        phase = core.phase(key)
        # The spawner tells an end a moment before the core has processed it.
        return phase is not None and phase not in OVER and exited(key) is None

    def ended(key: TaskKey) -> bool:
        return exited(key) is not None or folders.silent(key)

    def dropped(key: TaskKey) -> int:
        return folders.dropped(key, exited(key))

    return AttemptLookup(live, ended, dropped, changed)
