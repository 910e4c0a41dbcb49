# SPDX-License-Identifier: Apache-2.0
"""The thread that requests the lease and renews it, with connections and a loop of its own.

However long logs, traces or readings occupy the daemon's loop, the lease follows the scheduler. A
request goes out on every connection, and the first answer counts; a repeat counts for nothing.
`agent/jobs/lease_judge.py` decides what an answer is worth; its end is stored before the agent's
core hears of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from stoker.agent.jobs import steps
from stoker.agent.jobs.lease_judge import UNKNOWN, Freeze, LeaseExtended, LeaseJudge
from stoker.agent.link.agent_client import MessageHandler
from stoker.agent.link.agent_connection import AgentConnection
from stoker.agent.link.ping_responder import PingResponder
from stoker.agent.state.job_freezer import JobFreezer
from stoker.agent.state.lease import Lease
from stoker.mesh.connection import loop_runner
from stoker.mesh.connection.nats_frames import Delivery
from stoker.mesh.wire.command import Position
from stoker.native.structured_log import structlog

LOOK_S, CALM_LOOK_S = 0.1, 0.25
"""The time between two looks while attempts live here, and the longest while none does: nothing is
frozen then, and a job that starts meanwhile still finds a look that is no GAP_NS old."""
GAP_NS = 500_000_000
"""After so long without a look, the machine may have been paused together with its clocks."""
RETRY_S = 0.5
STOP_S, JOIN_S = 1.0, 0.05

_log = structlog.get_logger("lease")


class LeaseThread:
    """`post` passes an event to the daemon's loop; `position` is the node's log position, and
    `subject` where requests go."""

    def __init__(
        self,
        connect: Callable[[MessageHandler], Sequence[AgentConnection]],
        subject: str,
        judge: LeaseJudge,
        lease: Lease,
        *,
        position: Callable[[], Position],
        post: Callable[[steps.Event], None],
    ) -> None:
        self._counters: Counter[str] = Counter()
        self._connect = connect
        self._subject = subject
        self._judge = judge
        self._lease = lease
        self._position = position
        self._post = post
        self._looked_ns = 0
        self._gap_ns = 0
        """The end of the last gap between two looks."""
        self.freezer: JobFreezer | None = None
        """Set before the start, once the spawner has made the jobs' cgroup."""
        self.busy: Callable[[], bool] = lambda: True
        """Returns True while attempts live here; set before the start, called in this thread."""
        self.responder: PingResponder | None = None
        """Answers pings in this thread, so that a busy daemon is not taken for a dead node."""
        self._stopping = threading.Event()
        self._cancel: Callable[[], object] | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def counters(self) -> Counter[str]:
        """The thread's counters by name, with those of the judge."""
        return self._counters + self._judge.counters

    def start(self) -> None:
        """Start requesting."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; afterwards only the caller uses the lease."""
        self._stopping.set()
        until_s = time.monotonic() + STOP_S
        while self._thread.is_alive() and time.monotonic() < until_s:
            # Each task is cancelled by itself, again and again: a wait that completes meanwhile
            # swallows one cancellation, and a group passes only one on.
            if self._cancel is not None:
                with contextlib.suppress(RuntimeError):  # its loop has ended
                    self._cancel()
            self._thread.join(JOIN_S)

    def handle(self, message: Delivery) -> None:
        """Handle one answer."""
        freeze = self._freeze()
        verdict = self._judge.judge(message.data, _boot_ns(), self._position(), freeze)
        if not isinstance(verdict, LeaseExtended):
            if verdict.counter == UNKNOWN:
                self._post(steps.AnswerUnknown())
            return
        if verdict.stamp_ns >= self._gap_ns:
            self._gap_ns = 0
        self._lease.extend(verdict.expiry_ns)
        self._post(steps.LeaseRenewed(verdict.expiry_ns, verdict.at, freeze))

    def look(self, connections: Sequence[AgentConnection]) -> None:
        """Tell the watchdog that this process looks, freeze jobs in its place if nobody looks
        there, and request the lease if that is due."""
        now_ns = _boot_ns()
        if now_ns - self._looked_ns > GAP_NS:
            self._gap_ns = now_ns
        self._looked_ns = now_ns
        if not self._gap_ns:
            self._lease.look(now_ns)
        if self.freezer is not None:
            self._counters["lease_agent_froze"] += self.freezer.look(now_ns)
        up = [each for each in connections if each.connected]
        if up and now_ns >= self._judge.due_ns():
            frozen = self._freeze() is not None
            request = self._judge.request(now_ns, self._position(), frozen=frozen)
            for connection in up:
                connection.publish(self._subject, request)

    def _freeze(self) -> Freeze | None:
        found = self._lease.freeze()
        return Freeze(*found) if found is not None else None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                loop_runner.run(self._serve())
            except asyncio.CancelledError:
                return
            except Exception as error:
                self._counters["lease_thread_failed"] += 1
                _log.exception("the lease thread failed and starts again", error=str(error))
                self._stopping.wait(RETRY_S)

    async def _serve(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        tasks = [task]
        self._cancel = lambda: loop.call_soon_threadsafe(_cancel_each, tasks)
        if self._stopping.is_set():  # `stop` may have come before there was a task to cancel
            return
        if self.responder is not None:
            self.responder.serve(loop)
        connections = self._connect(self.handle)
        failed: asyncio.Future[None] = loop.create_future()
        async with asyncio.TaskGroup() as group:
            for connection in connections:
                connection.on_up = partial(self.look, connections)
                tasks.append(group.create_task(connection.run()))
            tasks.append(group.create_task(_until(failed)))
            self._look_again(loop, connections, failed)

    def _look_again(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: Sequence[AgentConnection],
        failed: asyncio.Future[None],
    ) -> None:
        """Look now, and again and again as long as `failed` is open; a look that fails ends it.

        A timer is a third of the cost of a task that sleeps, and looks are most of this thread's.
        """
        if failed.done():
            return
        try:
            self.look(connections)
        except Exception as error:
            failed.set_exception(error)
            return
        loop.call_later(self._rest_s(), self._look_again, loop, connections, failed)

    def _rest_s(self) -> float:
        """Return the time until the next look: a request is never later for a calm node."""
        if self.busy():
            return LOOK_S
        due_s = (self._judge.due_ns() - _boot_ns()) / 1e9
        return min(CALM_LOOK_S, max(LOOK_S, due_s))


async def _until(failed: asyncio.Future[None]) -> None:
    await failed


def _cancel_each(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()


def _boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
