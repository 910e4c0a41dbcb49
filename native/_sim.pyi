# SPDX-License-Identifier: Apache-2.0
"""Simulated nodes: cards, faults and a clock (native/sim). Times in ns on the node's own clock.

A card is a dictionary with the members of `struct sk_sim_model` (native/sim/card/card.h), with
`physics` and `sensor` as dictionaries of their own and `partitions` as a list of them.
"""

from typing import Any

VARIABLE: str
"""The environment variable that names the node to the simulated driver libraries."""
HISTORY: int

def fault_kinds() -> list[str]: ...
def power_at(
    model: dict[str, Any],
    compute: float,
    memory: float,
    bound: float,
    clock_mhz: float,
    die_c: float,
) -> float:
    """True watts of a card of this model at this clock, load and die temperature."""

def work_at(
    model: dict[str, Any], compute: float, memory: float, bound: float, clock_mhz: float
) -> float:
    """Work per second there; 1 is full load at the highest clock."""

class Node:
    @staticmethod
    def create(
        path: str | None,
        models: list[dict[str, Any]],
        virtual: bool,
        seed: int,
        profile: str = "",
    ) -> Node:
        """Make a node; without a path it is in this process alone, and in virtual time."""

    @staticmethod
    def open(path: str | None = None) -> Node:
        """Map the node at `path`, or the one that VARIABLE names."""

    def advance(self, ns: int) -> None:
        """Virtual time passes; in real time nothing happens."""

    @property
    def now_ns(self) -> int: ...
    def set_load(self, card: int, compute: float, memory: float, bound: float) -> None: ...
    def set_limit(self, card: int, mw: int) -> None:
        """ValueError outside of the card's range."""

    def lock_clocks(self, card: int, lo: int, hi: int) -> None:
        """0 and 0 let them go; ValueError outside of the card's range."""

    def reset(self, card: int) -> None: ...
    def inject(
        self,
        kind: str,
        card: int = -1,
        from_ns: int | None = None,
        until_ns: int = 0,
        value: int = 0,
        count: int = 0,
        call: str = "",
    ) -> int:
        """Add a fault to the script: from now, for good, on every card unless said otherwise."""

    def heal(self) -> None:
        """End every fault now."""

    def truth(self, card: int) -> dict[str, Any]:
        """All that the card holds: model, load, now, processes, partitions, partitioned."""

    def sensor(self, card: int) -> dict[str, int] | None:
        """Fields as a driver reports them; None if it reports none (lost card, dropped reading)."""

    def add_process(
        self,
        card: int,
        pid: int,
        memory_bytes: int,
        share: float,
        name: str = "",
        kind: int = 1,
        instance: int = 0,
    ) -> None:
        """`kind` 1 computes, 2 draws, 3 is of MPS; `instance` is that of a partition."""

    def end_process(self, card: int, pid: int) -> None: ...
    def calls(self) -> dict[str, tuple[int, int]]:
        """Driver function -> calls, and how many of them were answered as not supported."""

    def events(self) -> list[dict[str, int]]:
        """The newest of them, oldest first."""

    def set_latency(self, ns: int) -> None:
        """Makes every driver call take this long."""

    def set_open(self, open: bool) -> None:
        """Lets any caller change settings; otherwise only root may."""

    def describe(self) -> dict[str, Any]: ...
