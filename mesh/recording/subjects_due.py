# SPDX-License-Identifier: Apache-2.0
"""The single jobs, devices and nodes that a sampler reads next, one after the other.

Pure. Owns the bound of what the details of a recording cost: so many requests in a sample, however
many jobs and devices there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stoker.mesh.wire.schema import JobView
from stoker.scheduler.nouns import ENDED

JOBS_MAX: Final = 32
"""The most running and waiting jobs of which details are read, the newest first."""
READS_OF_END: Final = 5
"""A job that is over is read so often, unless its trace is there sooner."""
DEVICES_MAX: Final = 32
NODES_MAX: Final = 32


class SubjectsDue:
    """The subjects that are due; `most` requests at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._devices: tuple[str, ...] = ()
        self._live: dict[str, str] = {}
        self._over: set[str] = set()
        self._reads: dict[str, int] = {}
        self._finals: list[str] = []
        self._nodes: list[str] = []
        self._seen_nodes: set[str] = set()
        self._next = 0

    def jobs(self, jobs: Sequence[JobView]) -> None:
        """Note the jobs, newest first. One that ended since the last time is read once more."""
        live = [job for job in jobs if job.state not in ENDED][:JOBS_MAX]
        ended = [str(job.job) for job in jobs if job.state in ENDED][:JOBS_MAX]
        self._over &= set(ended)
        self._reads = {job: reads for job, reads in self._reads.items() if job in ended}
        self._finals = [job for job in ended if job not in self._over]
        self._live = {str(job.job): job.state for job in live}

    def read(self, job: JobView) -> bool:
        """Note that a job was read. One that is over needs no further reading, unless its trace was
        not there yet: then False, for what was read is not the whole."""
        number = str(job.job)
        if job.state not in ENDED:
            return True
        reads = self._reads[number] = self._reads.get(number, 0) + 1
        if job.trace is None and reads < READS_OF_END:
            return False
        self._over.add(number)
        self._finals = [each for each in self._finals if each != number]
        return True

    def devices(self, names: Sequence[str]) -> None:
        """Note the devices, by `node:device`."""
        self._devices = tuple(names[:DEVICES_MAX])

    def nodes(self, names: Iterable[str]) -> None:
        """Note the nodes; the topology of each is read once."""
        new = [name for name in names if name not in self._seen_nodes]
        for name in new[: max(0, NODES_MAX - len(self._seen_nodes))]:
            self._seen_nodes.add(name)
            self._nodes.append(name)

    def take(self) -> list[tuple[str, str]]:
        """Return (part, subject) of the next requests: what is read once, then in a circle."""
        once = [("topology", name) for name in self._nodes]
        once += [("job", name) for name in self._finals]
        once, self._nodes = once[: self._most], self._nodes[self._most :]
        return once + self._circle(self._most - len(once))

    def _circle(self, most: int) -> list[tuple[str, str]]:
        ring = [("job", name) for name, state in self._live.items() if state != "pending"]
        ring += [("readings", name) for name in self._devices]
        ring += [("explain", name) for name in self._live]
        if not ring:
            return []
        first, count = self._next % len(ring), min(most, len(ring))
        self._next = first + count
        return [ring[(first + at) % len(ring)] for at in range(count)]
