# SPDX-License-Identifier: Apache-2.0
"""The settings that cards had before stoker's first write: they are recorded, and restored later.

Invariants: nothing is set before its original value is on disk, and the record stays until all of
it was restored. The watchdog restores settings only when the agent's power lease has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stoker.agent.devices.readings import Absent
from stoker.agent.power.inputs import PowerInputs
from stoker.agent.power.setters import record
from stoker.agent.power.setters.record import RecordedSetting
from stoker.agent.power.survey import NodeSurvey
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog

BEGIN_NS: Final = 30_000_000_000
"""The length of the power lease while drivers are called at the beginning or to restore, which may
take long."""
RESTORE_AGAIN_S: Final = 5.0

_log = structlog.get_logger("power")


class OriginalSettings:
    """One node's record, and the entries of it that could not be restored."""

    def __init__(self, inputs: PowerInputs) -> None:
        self._inputs = inputs
        self._path = record.path(inputs.agent)
        self._writing = threading.Lock()
        """Guards the record, to which a writer's own thread may add."""
        self._found: list[RecordedSetting] = []
        """Entries of the cards that writers set now."""
        self._owed: list[RecordedSetting] = []
        """Entries of cards that do not answer, to be restored when they do."""
        self._blocked: bool | None = None
        self._tried_s = float("-inf")
        self.unrestored = ""
        """Reasons of stoker-restore for what it could not restore."""

    def is_recorded(self) -> bool:
        """True while a record is on disk."""
        return self._path.exists()

    def renew(self, for_ns: int) -> None:
        """Set the power lease to end `for_ns` from now; 0 ends it."""
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._inputs.lease.renew_power(now + for_ns if for_ns else 0)

    def restore(self) -> None:
        """Restore what an earlier agent, or this one, left set, whatever the rules are now."""
        if not self.is_recorded():
            self.unrestored, self._owed, self._blocked = "", [], False
            return
        if self.unrestored and time.monotonic() - self._tried_s < RESTORE_AGAIN_S:
            return
        self.renew(BEGIN_NS)
        self.unrestored = record.restore(self._path)
        self.renew(0)
        self._owed, self._blocked, self._tried_s = [], None, time.monotonic()

    def blocks(self, survey: NodeSurvey) -> bool:
        """True if a card that answers could not be restored: then no card is set."""
        if self._blocked is None:
            self._blocked = bool(self.unrestored) and not self._is_owed_to_others(survey)
        return self._blocked

    def keep(self, found: Sequence[RecordedSetting]) -> None:
        """Record these settings before writers begin; Refused if the disk does not take them."""
        record.store(self._path, self._inputs.boot_id, [*found, *self._owed])
        self._found = list(found)

    def note(self, found: Sequence[RecordedSetting]) -> None:
        """Add settings that are about to be changed, from any thread; Refused as in `keep`.

        Entries of jobs' groups that are gone are left out.
        """
        with self._writing:
            kept = [
                each for each in self._found if each.what != "cpu_max" or Path(each.id).exists()
            ]
            self.keep([*kept, *found])

    def forget(self) -> None:
        """Remove what was given back from the record, and keep what is owed to silent cards.

        A record that cannot be removed is restored once more, which changes nothing.
        """
        self.restore_next()
        try:
            if self._owed:
                record.store(self._path, self._inputs.boot_id, self._owed)
            else:
                self._path.unlink(missing_ok=True)
        except (StokerError, OSError) as error:
            _log.warning("the record of what cards were set to stays", why=str(error))

    def restore_next(self) -> None:
        """Let the next `restore` run at once, before anything is set or recorded again."""
        self._tried_s = float("-inf")

    def _is_owed_to_others(self, survey: NodeSurvey) -> bool:
        """True if only cards that do not answer could not be restored.

        Their entries stay on record, and the other cards are within the budget meanwhile.
        """
        failed = record.unrestored(self.unrestored)
        kept = record.load(self._path) if failed else None
        if kept is None:
            return False
        asked = {
            id: each.found for id, each in survey.setters.items() if not isinstance(each, Absent)
        }
        answering: set[str] = set()
        for settings in survey.driver_calls.each(asked).values():
            answering |= set() if isinstance(settings, Absent) else {each.id for each in settings}
        if failed & answering:
            return False
        self._owed = [each for each in kept[1] if each.id in failed]
        return True
