# SPDX-License-Identifier: Apache-2.0
"""The waits of a job's ranks for each other; over native/trace/peers/peers.h."""

RECORD_BYTES: int
"""Size of one record, `struct sk_collective`."""
ENTER: int
LEAVE: int
RANK_NONE: int
"""The rank of a process for which no launcher says one."""
RANKS_MAX: int

_Rank = tuple[int, int, bool, int, int, int, int, int, int, int, int, int, int, int]
Group = tuple[int, int, int, bool, int, int, tuple[tuple[int, int, int, int], ...]]
Doing = tuple[int, int, int, int | None, int, bool]
_Missing = tuple[int, int | None, int]

class Peers:
    """The ranks of one job; records come in the order of their calls."""

    def __init__(self, kinds: bytes) -> None:
        """`kinds`: what each call is, by its number."""
    def join(self, pid: int, rank: int, key: int, size: int, handle: int) -> int:
        """0, or a negative errno."""
    def start(self, pid: int) -> None:
        """It has made no call yet."""
    def leave(self, pid: int) -> None: ...
    def blind(self, pid: int) -> None: ...
    def add(self, records: bytes) -> int:
        """The number of records that were of these ranks."""
    def show(self, to_ns: int) -> None: ...
    def take(self) -> dict[int, bytes]:
        """The waits told since the last call, as thread spans, by process."""
    def ranks(self) -> list[_Rank]:
        """(rank, pid, gone, calls, inside, wait, message, last, caused, seen, until, queued,
        own, messages)."""
    def groups(self) -> list[Group]:
        """(number, origin, size, aligned, operations, wait, ((rank, last, caused, wait), ...))."""
    def operations(self) -> list[tuple[int, int, int]]:
        """(call, count, wait)."""
    def stuck(
        self, now_ns: int, after_ns: int
    ) -> list[tuple[int, int, int, int, tuple[int, ...], tuple[_Missing, ...]]]:
        """(communicator, call, number, since, ranks that wait, (rank, its call, since) missing)."""
    def spread(self) -> list[tuple[int, int, int, tuple[Doing, ...]]]:
        """(key, size, part, (rank, pid, calls entered, the newest, since when it waits in it or 0,
        all calls are counted) of its members here) of those with ranks elsewhere. Parts that one
        call has made of all ranks have its key and size."""
    def losses(self) -> dict[str, int]: ...
