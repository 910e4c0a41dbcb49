# SPDX-License-Identifier: Apache-2.0
"""The thread that hears heartbeats and renews the lease, on a connection and a loop of its own.

However long logs, traces or readings keep the daemon's loop busy, the lease follows the scheduler.
Owns the rule that this thread only ever lengthens a lease, by a heartbeat that is signed, new and
not ahead of what the node has followed; whatever else a heartbeat means is for the core of the
agent to decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable

import structlog
from nats.aio.msg import Msg

from stoker.agent.jobs import steps
from stoker.agent.link.agent_connection import AgentConnection, Hear
from stoker.agent.state.lease import Lease
from stoker.mesh.wire.command import HeartbeatJudge, LeaseRenewal, Position

AGAIN_S = 0.5
STOP_S, JOIN_S = 1.0, 0.05

_log = structlog.get_logger("lease")


class LeaseThread:
    """`post` hands an event to the daemon's loop; `position` is how far the node has followed."""

    def __init__(
        self,
        make_link: Callable[[Hear], AgentConnection],
        judge: HeartbeatJudge,
        lease: Lease,
        position: Callable[[], Position],
        post: Callable[[steps.Beaten], None],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._make_link = make_link
        self._judge = judge
        self._lease = lease
        self._position = position
        self._post = post
        self._stopping = threading.Event()
        self._cancel: Callable[[], object] | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """End within a moment: afterwards the lease is nobody's but the caller's."""
        self._stopping.set()
        until_s = time.monotonic() + STOP_S
        while self._thread.is_alive() and time.monotonic() < until_s:
            # Again and again: a wait that ends as it is cancelled keeps that to itself.
            if self._cancel is not None:
                with contextlib.suppress(RuntimeError):  # its loop has ended
                    self._cancel()
            self._thread.join(JOIN_S)

    def hear(self, message: Msg) -> None:
        """One heartbeat."""
        frozen = self._lease.frozen_since() is not None
        verdict = self._judge.judge(message.data, self._position())
        if isinstance(verdict, LeaseRenewal) and not frozen:
            self.counters["lease_renewed"] += 1
            now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            self._lease.extend(now_ns + verdict.heartbeat.lease_ms * 1_000_000)
        else:  # behind, frozen or refused: the core asks, and counts
            self._post(steps.Beaten(message.data, frozen))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(self._serve())
            except asyncio.CancelledError:
                return
            except Exception as error:
                self.counters["lease_thread_failed"] += 1
                _log.exception("the lease is heard of anew", error=str(error))
                self._stopping.wait(AGAIN_S)

    async def _serve(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if not self._stopping.is_set():  # else `stop` came before there was anything to cancel
            await self._make_link(self.hear).run()
