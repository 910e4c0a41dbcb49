# SPDX-License-Identifier: Apache-2.0
"""The agent as the power loop sees it: folders, cards, readings, jobs, scheduler and lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from stoker.agent.devices.card import Card as DeviceCard
from stoker.agent.devices.readings import Absent, CardReadings
from stoker.agent.power.setters.card_setters import CardSetter
from stoker.agent.state.lease import Lease


class PowerInputs(msgspec.Struct, frozen=True):
    """Functions of the agent's other parts; all may be called from the loop's thread."""

    agent: Path
    """The agent's state folder, which holds the rules and the record of settings."""
    run: Path
    """The folder of the status file."""
    boot_id: str
    cards: Callable[[], tuple[DeviceCard, ...]]
    readings: Callable[[], Mapping[str, CardReadings]]
    holders: Callable[[], Mapping[str, frozenset[str]]]
    """Device -> the users whose jobs have it."""
    connected: Callable[[], bool]
    lease: Lease
    job_limit: Callable[[str, float], CardSetter | Absent] = lambda _id, _watts: Absent("no limit")
    """The limit on the jobs of a device that takes none itself, from its id and declared watts."""
