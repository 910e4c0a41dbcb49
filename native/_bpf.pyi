# SPDX-License-Identifier: Apache-2.0
"""The BPF programs of one node and their maps; a handle over native/bpf/host/host.h.

The module is absent where clang, bpftool or libbpf were
missing at build time. Times are CLOCK_MONOTONIC ns.
"""

_Times = tuple[
    int, int, int, int, int, int, int, tuple[int, ...], int, int, int, int, int, int, int, int
]
_Thread = tuple[tuple[int, int, int, int, int], _Times]
_Job = tuple[int, _Times, list[_Thread], int, int]
_Event = tuple[int, int, int, int, int, int, int, str, int | None, int | None, bool, bool]
_Notice = tuple[int, int, int, int, int, int, int, int, int, int, str, str]
_Tally = tuple[int, int, int, int, int, int, int, int, int, tuple[int, ...]]
_StackWait = tuple[int, int, int, int, int, int, int, int]

class Host:
    """Loaded and attached programs. Every call is bounded and none blocks."""

    def __init__(
        self,
        jobs_cgroup: int,
        jobs_level: int,
        *,
        jobs_directory: int,
        threads: int,
        jobs: int,
        tallies: int,
        span_ring_bytes: int,
        event_ring_bytes: int,
        notice_ring_bytes: int,
        stack_ns: int,
        btf_path: str,
    ) -> None: ...
    def attach(self) -> list[tuple[str, int, str]]:
        """(probe id, 0 attached / 1 refused / 2 unknown / 3 off, reason) for each host probe."""
    def states(self) -> list[tuple[str, int, str]]:
        """States of the probes as they are now; `ask` changes them."""
    def ask(self, job: int, what: int) -> int:
        """1 calls, 2 stacks, 4 faults, 0 nothing more; 0 or a negative errno."""
    def critical(self) -> list[_Notice]:
        """(kind, ns, job, pid, tid, code, from pid, flags, major, minor, name, text)."""
    def opens(self) -> list[_Notice]: ...
    def tallies(self) -> list[_Tally]:
        """(job, what, pid, detail, count, ns, longest ns, amount, last, lengths)."""
    def stack_waits(self, job: int) -> list[_StackWait]:
        """(pid, call, kernel stack, user stack, count, weight, ns, longest ns)."""
    def stack(self, id: int) -> list[int]:
        """Addresses of a stack, innermost first; none when it is not kept."""
    def follow(self, job: int, full: bool) -> int:
        """0 or a negative errno; -ENOSPC when the jobs table is full."""
    def unfollow(self, job: int) -> None: ...
    def read(self, job: int) -> tuple[int, int, list[_Job]]:
        """(before, now, [(job, totals, threads, ended, unsettled)]); job 0 means all."""
    def spans(self) -> dict[int, bytes]: ...
    def rest(self) -> bool: ...
    def events(self) -> list[_Event]: ...
    def made(self) -> dict[str, int]: ...
    def dropped(self) -> dict[str, int]: ...
    def begin_cost(self) -> None: ...
    def end_cost(self) -> tuple[int, list[tuple[str, int, int]], str]:
        """(window ns, [(probe id, run ns, runs)], why not)."""
    def close(self) -> None: ...
