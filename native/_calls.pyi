# SPDX-License-Identifier: Apache-2.0
"""Uprobes over calls into libraries, and what a hit of one costs; over native/bpf/calls/calls.h.

The module is absent where
clang, bpftool or libbpf were missing at build time.
"""

SITES_MAX: int
"""Sites of one group."""
KEYS_MAX: int
"""Pairs of process and call that are counted at once."""
BUCKETS: int

COLLECTIVE: int
"""Parts of a site's last number: records/collective.h."""
UNIQUE_ID: int
HANDLE_SHIFT: int
NUMBER_SHIFT: int
MADE_SHIFT: int

_Site = tuple[int, int, int, bool, int]
_Row = tuple[int, int, int, int, int, int, tuple[int, ...]]

def trap_costs() -> tuple[dict[str, tuple[int, int]], str]:
    """First instruction -> (ns of a hit at entry and return, ns at entry alone), or why not."""

class Calls:
    """The programs. Attaching and detaching wait for the kernel and release the GIL."""

    def __init__(self, one_by_one: bool = False) -> None: ...
    def load(self) -> tuple[int, str]:
        """(0 loaded / 1 refused / 2 unknown, reason)."""
    @property
    def grouped(self) -> bool:
        """True if the kernel keeps a group of sites as one link."""
    def attach(self, path: str, pid: int, sites: list[_Site]) -> int:
        """Sites are (offset, semaphore, call, entry only, what is told of a collective call).
        Returns a group, or a negative errno."""
    def detach(self, group: int) -> None: ...
    def read(self) -> list[_Row]:
        """(pid, call, entered, returned, total ns, longest ns, log2 buckets), in no order."""
    def collectives(self) -> bytes:
        """Records of 48 bytes, records/collective.h, in the order in which calls were made."""
    def forget(self, pid: int) -> None: ...
    def losses(self) -> dict[str, int]: ...
    def close(self) -> None: ...
