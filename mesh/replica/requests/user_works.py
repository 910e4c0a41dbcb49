# SPDX-License-Identifier: Apache-2.0
"""The works that a user's request becomes, or the refusal of the request.

Guarantees that making works changes nothing, so an error here is the answer to one request alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stoker.mesh.log.log_outage import LogOutage
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events, followed_jobs
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works import array_bound, array_work, core_request
from stoker.mesh.replica.works.array_cancel import array_cancels
from stoker.mesh.replica.works.array_work import ArrayWork
from stoker.mesh.replica.works.decide import repeats
from stoker.mesh.replica.works.device_conditions import conditions_of
from stoker.mesh.replica.works.named_devices import check_labels, check_levels
from stoker.mesh.replica.works.submit_work import SubmitWork
from stoker.mesh.replica.works.user_room import UserRoom
from stoker.mesh.replica.works.work import AdminWork, Work, cancel_works, remove_works
from stoker.native.errors import Refused


class UserWorks:
    """Makes works of the requests of users."""

    def __init__(
        self,
        settings: ReplicaSettings,
        state: ReplicaState,
        outage: LogOutage,
        room: UserRoom,
        outbox: Outbox,
    ) -> None:
        self._settings = settings
        self._state = state
        self._outage = outage
        self._room = room
        self._outbox = outbox
        self._makers: dict[type, Callable[[Any, Instant], Iterator[Work]]] = {
            events.JobSubmitted: self._submit,
            events.Admin: self._admin,
            events.CancelRequested: self._cancel,
            events.Remove: self._remove,
        }

    def make(self, event: events.Event, now: Instant) -> list[Work]:
        """Return the works of a request of a user; a StokerError is its refusal."""
        return list(self._makers[type(event)](event, now))

    def _submit(self, event: events.JobSubmitted, now: Instant) -> Iterator[Work]:
        refusal = self._outage.refusal(now.boot_ns)
        if refusal:
            raise Refused(f"no job is taken now: {refusal}")
        state = self._state
        array_bound.check(event.array, event.indexes, state.level)
        reports = list(state.book.nodes.values())
        if event.spec.require and reports:
            check_labels(event.spec.require, self._labels())
        levels = [*filter(None, (event.spec.within, *event.spec.prefer_within))]
        if levels and reports:
            check_levels(levels, self._labels())
        models = core_request.models_of(event.spec, reports)
        known = core_request.known_models(reports) if event.spec.prefer else ()
        conditions = conditions_of(event.spec, reports, known)
        token, owner, key, spec, array, since_ns, indexes = event
        named: dict[str, Any] = {"models": models, "conditions": conditions}
        if whole := array_work.wanted(state.level, array, indexes):
            work: SubmitWork = ArrayWork(token, owner, key, spec, whole, **named)
        else:
            work = SubmitWork(token, owner, key, spec, array=array or tuple(indexes), **named)
        old = core_request.forgotten(state.core, owner, work.first_key, since_ns)
        if old is not None:
            raise old
        measure = self._settings.measure
        if 0 < since_ns < state.restored_ns and not repeats(
            state, work, now.log_ns, measure=measure
        ):
            raise core_request.since_backup()
        unmet = followed_jobs.refusal(state.book, event.spec)
        if unmet is not None and not repeats(state, work, now.log_ns, measure=measure):
            raise unmet
        refused = self._room.refusal(work, state.book, state.limits.jobs)
        if refused is not None and not repeats(state, work, now.log_ns, measure=measure):
            self._outbox.count("budget_refused")
            raise refused
        yield work

    def _labels(self) -> Iterator[str]:
        """Yield the labels of all nodes."""
        core, book = self._state.core, self._state.book
        return (book.word(label.label) for node in core.nodes() for label in core.labels(node))

    def _admin(self, event: events.Admin, now: Instant) -> Iterator[Work]:
        yield AdminWork(*event)

    def _cancel(self, event: events.CancelRequested, now: Instant) -> Iterator[Work]:
        live = [job for job in event.jobs if self._state.book.live(job) is not None]
        if not event.parts:
            yield from cancel_works(event.token, live, event.jobs, event.reason, event.user)
            return
        words = (event.reason, event.user)
        if live:
            yield from cancel_works(None, live, [], *words)
        going_on = frozenset(live)
        others = {job: job in going_on for job in event.jobs}
        yield from array_cancels(
            event.token,
            event.parts,
            self._state,
            reason=event.reason,
            user=event.user,
            others=others,
        )

    def _remove(self, event: events.Remove, now: Instant) -> Iterator[Work]:
        yield from remove_works(*event)
