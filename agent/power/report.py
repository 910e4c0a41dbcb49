# SPDX-License-Identifier: Apache-2.0
"""Decisions and state of the power loop for people: the log file, and the status file each second.

Invariant: each decision is logged once, with the readings that it rests on.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Final

import msgspec

from stoker.agent.power import status
from stoker.agent.power.plan.action import PowerAction
from stoker.agent.power.plan.card import PowerCard, PowerRange, PowerSample
from stoker.agent.power.plan.controller import Controller
from stoker.agent.power.plan.ledger import Ledger
from stoker.agent.power.plan.model import IDLE_BUSY
from stoker.agent.power.plan.rules import PowerRules
from stoker.agent.power.setters.card_writer import CardWriter
from stoker.agent.power.setters.launch_limit import LaunchLimit
from stoker.native.structured_log import structlog

STATUS_S: Final = 1.0
RECENT: Final = 20

_log = structlog.get_logger("power")


class PowerReport:
    """The newest decisions, and when the status was last written."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._written_s = float("-inf")
        self._written: status.Status | None = None
        """The status in the file, or None before the first one."""
        self._unkept: dict[str, str] = {}
        """Caps of tenants that cannot be kept, as they were last logged."""
        self.recent: deque[status.DecidedAction] = deque(maxlen=RECENT)

    def decided(self, action: PowerAction, *, done: bool) -> None:
        """Log one action; `done` is False if it was only observed."""
        self._add(status.decided(action, time.time_ns(), done=done))

    def unkept(self, controller: Controller, rules: PowerRules, *, done: bool) -> None:
        """Log each tenant's cap that can no longer be kept, once."""
        unkept = controller.unkept
        for tenant in unkept.keys() - self._unkept.keys():
            watts, now_ns = rules.tenants.get(tenant, 0.0), time.time_ns()
            self._add(
                status.DecidedAction(
                    now_ns, controller.actions, tenant, "cap", watts, unkept[tenant], done
                )
            )
        self._unkept = dict(unkept)

    def is_due(self) -> bool:
        """True if the status was not written for STATUS_S."""
        return time.monotonic() - self._written_s >= STATUS_S

    def write(self, written: status.Status) -> None:
        """Replace the status file, or tell it once more if nothing in it changes."""
        self._written_s = time.monotonic()
        if self._holds(written) and status.renew(self._run):
            return
        status.write(self._run, written)
        self._written = written

    def _holds(self, now: status.Status) -> bool:
        before = self._written
        return before is not None and msgspec.structs.replace(before, t_ns=now.t_ns) == now

    def _add(self, decided: status.DecidedAction) -> None:
        self.recent.append(decided)
        _log.info("power decision", **decided.fields())


def card_status(
    card: PowerCard,
    sample: PowerSample | None,
    writer: CardWriter | None,
    ledger: Ledger | None,
    now_ns: int,
    *,
    sim: bool,
) -> status.CardStatus:
    """One card's part of the status; `ledger` is None while the loop controls nothing."""
    gone = ledger is not None and ledger.is_gone(card.id)
    return status.CardStatus(
        id=card.id,
        limit_w=ledger.confirmed_w(card.id) if ledger and card.power and not gone else None,
        holds_w=ledger.counted_w(card.id, now_ns) if ledger else None,
        gone=gone,
        idle=not gone and _is_idle(sample),
        range=tuple(card.power or PowerRange(0, 0, 0)),
        power_w=sample.power_w if sample and not gone else None,
        temperature_c=sample.temperature_c if sample and not gone else None,
        ceiling_c=card.ceiling_c,
        refused=(writer.refused or writer.unread) if writer else "",
        sim=sim,
        note=writer.setter.said if writer and isinstance(writer.setter, LaunchLimit) else "",
    )


def _is_idle(sample: PowerSample | None) -> bool:
    return sample is not None and sample.busy is not None and sample.busy < IDLE_BUSY
