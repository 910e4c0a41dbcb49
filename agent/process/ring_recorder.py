# SPDX-License-Identifier: Apache-2.0
"""The node's recorder: a thread that samples the cluster once a second into the node's ring.

It has a loop and a connection of its own, and the priority of the agent's other threads: one that
the kernel runs seldom would hold Python's lock meanwhile, and keep the lease waiting. Owns that no
failure of it reaches the daemon: time that it cannot record is a gap with a reason.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stoker.agent.agent_settings import AgentSettings
from stoker.agent.process.loop_thread import SHARE, LoopThread

if TYPE_CHECKING:
    from stoker.mesh.recording.ring_files import RecordingRing

LOOK_BACK_S = 600.0
"""The most time of events that is read again after the recorder did not run."""


class RingRecorder:
    """The recorder of one node. A node that joined has no user to read as, and records nothing."""

    def __init__(self, setting: AgentSettings) -> None:
        self._root = setting.state.root
        self._limits = setting.config.recording
        self._agent = setting.agent
        self._thread = LoopThread("recorder", self._record, "the ring is not written")
        self._ring: RecordingRing | None = None
        self._records = self._limits.enabled and not setting.cluster.joined

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters of the ring."""
        ring = self._ring
        return {**ring.counters, "recording_ring_bytes": ring.bytes} if ring is not None else {}

    def start(self) -> None:
        """Begin to record, if this node does."""
        if self._records:
            self._thread.start()

    def stop(self) -> None:
        """End; what was sampled is written unless that takes too long."""
        self._thread.stop()

    async def _record(self) -> None:
        """Record until the end, from where the ring was left.

        A node that records nothing never loads the code.
        """
        from stoker.mesh.client.client import Client
        from stoker.mesh.recording import left_off
        from stoker.mesh.recording.recorder import Recorder
        from stoker.mesh.recording.recording_file import RecordedBy
        from stoker.mesh.recording.ring_files import FOLDER, RecordingRing
        from stoker.mesh.recording.sampler import ClusterSampler

        folder = self._agent / FOLDER
        ring = self._ring = self._ring or RecordingRing(folder, self._limits)
        async with Client.open(str(self._root), patience_s=0.0) as client:
            since_s = _since_s(ring)
            positions = left_off.positions(folder) if since_s < LOOK_BACK_S else {}
            sampler = ClusterSampler(client, since_s=since_s, positions=positions)
            about = RecordedBy(_version(), client.user, self._limits.interval_s, "ring")
            recorder = Recorder(sampler, ring, about)
            try:
                while not self._thread.stopping:
                    began_s, cpu_s = time.monotonic(), time.thread_time()
                    await recorder.step()
                    took_s, cpu_s = time.monotonic() - began_s, time.thread_time() - cpu_s
                    rest_s = max(self._limits.interval_s - took_s, SHARE * cpu_s)
                    await self._thread.pause(rest_s)
            finally:
                recorder.flush()


def _since_s(ring: RecordingRing) -> float:
    """Return how far to look back for events that were told while nobody recorded."""
    ago_s = (time.time_ns() - ring.last_ns) / 1e9
    return min(max(ago_s, 0.0), LOOK_BACK_S)


def _version() -> str:
    from stoker import __version__

    return __version__
