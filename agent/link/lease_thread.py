# SPDX-License-Identifier: Apache-2.0
"""The thread that hears heartbeats and renews the lease, with a connection and a loop of its own.

However long logs, traces or readings occupy the daemon's loop, the lease follows the scheduler.
This thread only ever extends a lease, by a heartbeat that is signed, new and not ahead of the log
position that the node has reached; the agent's core decides about all others.
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
from stoker.agent.link.agent_connection import AgentConnection, MessageHandler
from stoker.agent.state.lease import Lease
from stoker.mesh.wire.command import HeartbeatJudge, LeaseRenewal, Position

RETRY_S = 0.5
STOP_S, JOIN_S = 1.0, 0.05

_log = structlog.get_logger("lease")


class LeaseThread:
    """`post` passes an event to the daemon's loop; `position` is the node's log position."""

    def __init__(
        self,
        connect: Callable[[MessageHandler], AgentConnection],
        judge: HeartbeatJudge,
        lease: Lease,
        position: Callable[[], Position],
        post: Callable[[steps.HeartbeatReceived], None],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._connect = connect
        self._judge = judge
        self._lease = lease
        self._position = position
        self._post = post
        self._stopping = threading.Event()
        self._cancel: Callable[[], object] | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Start listening."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; afterwards only the caller uses the lease."""
        self._stopping.set()
        until_s = time.monotonic() + STOP_S
        while self._thread.is_alive() and time.monotonic() < until_s:
            # Cancelled repeatedly: a wait that completes meanwhile swallows one cancellation.
            if self._cancel is not None:
                with contextlib.suppress(RuntimeError):  # its loop has ended
                    self._cancel()
            self._thread.join(JOIN_S)

    def handle(self, message: Msg) -> None:
        """Handle one heartbeat."""
        frozen = self._lease.frozen_since() is not None
        verdict = self._judge.judge(message.data, self._position())
        if isinstance(verdict, LeaseRenewal) and not frozen:
            self.counters["lease_renewed"] += 1
            now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            self._lease.extend(now_ns + verdict.heartbeat.lease_ms * 1_000_000)
        else:  # behind, frozen or refused: the core requests the state, and counts
            self._post(steps.HeartbeatReceived(message.data, frozen))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(self._serve())
            except asyncio.CancelledError:
                return
            except Exception as error:
                self.counters["lease_thread_failed"] += 1
                _log.exception("the lease thread failed and starts again", error=str(error))
                self._stopping.wait(RETRY_S)

    async def _serve(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if not self._stopping.is_set():  # `stop` may have come before there was a task to cancel
            await self._connect(self.handle).run()
