# SPDX-License-Identifier: Apache-2.0
"""Probe sites of a library, and the choice of those that are worth their cost.

Pure except for reading the library. A site's first instruction determines the cost of a hit. A site
over the budget at the expected rate is moved to an equivalent place, sampled in windows, or off.
Every result has a stable id and a reason, and no damaged library raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from stoker.native.errors import StokerError
from stoker.probes.calls.call_targets import CallTarget
from stoker.probes.calls.elf import ElfFile
from stoker.probes.calls.prologue import ENDBR64, LONGEST, Trap, behind_endbr64, trap_of
from stoker.probes.calls.trap_cost import TrapCosts
from stoker.probes.cost.cost_budget import PPM

SiteState = Literal["attached", "sampled", "off", "refused", "absent", "unknown"]
"""off: for its cost; refused: by the kernel or for the instruction; absent: not in this library;
unknown: the library or the kernel could not be asked."""

DUTY_STEPS_PPM = (500_000, 200_000, 100_000, 50_000, 20_000, 10_000)
"""Parts of the time for which sites are attached in windows; few, so that they share links."""


TELL_NS = 300
"""The cost of telling a call of a rank beside that of counting it: two records and their fold."""


class Site(msgspec.Struct, frozen=True):
    """One place in a library's file where a call can be probed."""

    symbol: str
    offset: int
    trap: Trap
    code: str
    """The instruction's bytes and what follows, in hex, as they were when the site was chosen."""
    semaphore: int = 0
    entry_only: bool = False
    moved: str = ""
    """The reason why it is not the function's first instruction; empty if it is."""


class Call(msgspec.Struct, frozen=True):
    """One target in one library: its sites, or the reason why there is none."""

    target: CallTarget
    sites: tuple[Site, ...]
    state: SiteState
    """The state; `attached` means here that it can be attached."""
    reason: str


class SiteDecision(msgspec.Struct, frozen=True):
    """Decision about one call's sites. `reason` is never empty."""

    id: str
    state: SiteState
    reason: str
    trap: Trap | None = None
    """The cost of the most expensive site."""
    hit_ns: int | None = None
    rate: float = 0.0
    duty_ppm: int = 0


# --- reading a library ----------------------------------------------------------------------------


def find_calls(library: ElfFile, targets: Iterable[CallTarget]) -> list[Call]:
    """Return the sites of each target in a library, also for a damaged one."""
    return [_find(library, target) for target in targets]


def _find(library: ElfFile, target: CallTarget) -> Call:
    try:
        return _cheaper(library, target, _sites(library, target))
    except StokerError as error:
        return Call(target, (), "unknown", error.message)


def _sites(library: ElfFile, target: CallTarget) -> Call:
    if target.usdt and (found := _usdt(library, target)):
        return Call(target, found, "attached", "the library's own probe")
    symbols = [symbol for name in target.symbols for symbol in library.symbols(name)]
    if not symbols:
        return Call(target, (), "absent", f"the library has no function {target.symbol}")
    direct = {symbol.address: symbol for symbol in reversed(symbols) if symbol.kind != "ifunc"}
    if not direct:
        why = f"{target.symbol} is chosen at load time: its symbol is of the resolver (IFUNC)"
        return Call(target, (), "refused", why)
    sites = tuple(_site(library, each.name, each.address) for each in direct.values())
    good = tuple(site for site in sites if site.trap != "refused")
    if not good:
        return Call(target, (), "refused", f"{target.symbol} begins with a breakpoint")
    return Call(target, tuple(sorted(good, key=lambda s: s.symbol)), "attached", _named(good))


def _site(library: ElfFile, symbol: str, address: int) -> Site:
    code = library.code(address, len(ENDBR64) + LONGEST)
    offset = library.offset_of(address, code=True)
    trap = trap_of(code, library.machine)
    behind = behind_endbr64(code, library.machine)
    if behind is None:
        return Site(symbol, offset, trap, code[:LONGEST].hex())
    why = f"behind its endbr64, which every call passes on the way to a {behind}"
    kept = code[len(ENDBR64) :].hex()
    return Site(symbol, offset + len(ENDBR64), behind, kept, moved=why)


def _usdt(library: ElfFile, target: CallTarget) -> tuple[Site, ...]:
    provider, _, name = target.usdt.partition(":")
    notes = [note for note in library.usdt if (note.provider, note.name) == (provider, name)]
    found = []
    for note in notes:
        site = _site(library, target.usdt, note.address)
        semaphore = library.offset_of(note.semaphore) if note.semaphore else 0
        found.append(msgspec.structs.replace(site, semaphore=semaphore, entry_only=True))
    return tuple(site for site in found if site.trap != "refused")


def _cheaper(library: ElfFile, target: CallTarget, call: Call) -> Call:
    """Return the inner function to use instead of a site that would be single-stepped, if any."""
    if not any(site.trap in ("endbr64", "other") for site in call.sites):
        return call
    for name in target.inner:
        for symbol in library.inner(name):
            site = _site(library, symbol.name, symbol.address)
            if symbol.kind != "ifunc" and site.trap in ("nop5", "push", "nop1", "branch"):
                why = f"inside of it, at {name}, which every such call passes"
                return Call(target, (msgspec.structs.replace(site, moved=why),), "attached", why)
    return call


def _named(sites: Iterable[Site]) -> str:
    return ", ".join(f"{s.symbol}{f' ({s.moved})' if s.moved else ''}" for s in sites)


# --- choosing -------------------------------------------------------------------------------------


def choose(
    calls: Iterable[Call],
    budget_ppm: int,
    costs: TrapCosts,
    rates: Mapping[str, float] | None = None,
) -> list[SiteDecision]:
    """Decide for each call so that all fit into `budget_ppm` of one thread's time.

    `rates`: known calls a second by target id; the others count with their planned rate. The
    cheapest come first.
    """
    weighed = [_weigh(call, costs, rates or {}) for call in calls]
    room = float(budget_ppm)
    order = sorted(range(len(weighed)), key=lambda i: share_ppm(weighed[i]))
    for i in order:
        if weighed[i].state == "attached":
            weighed[i] = _fit(weighed[i], room, costs)
            room -= share_ppm(weighed[i]) * weighed[i].duty_ppm / PPM
    return weighed


def share_ppm(decision: SiteDecision) -> float:
    """Return the part of a thread's time that the call's hits would take if always attached."""
    return decision.rate * (decision.hit_ns or 0) / 1000


def _weigh(call: Call, costs: TrapCosts, rates: Mapping[str, float]) -> SiteDecision:
    rate = rates.get(call.target.id, float(call.target.rate))
    decision = SiteDecision(call.target.id, call.state, call.reason, rate=rate)
    if call.state != "attached":
        return decision
    told_ns = TELL_NS if call.target.ranked else 0
    priced = [
        (None if hit_ns is None else hit_ns + told_ns, site)
        for site in call.sites
        for hit_ns in (costs.hit_ns(site.trap, entry_only=site.entry_only),)
    ]
    dearest = max(priced, key=lambda each: each[0] or 0)
    known = all(ns is not None for ns, _ in priced)
    return msgspec.structs.replace(
        decision, trap=dearest[1].trap, hit_ns=dearest[0] if known else None
    )


def _fit(decision: SiteDecision, room: float, costs: TrapCosts) -> SiteDecision:
    if decision.hit_ns is None:
        why = f"what a hit of a {decision.trap} costs is not known here: in the shortest windows"
        return msgspec.structs.replace(
            decision, state="sampled", duty_ppm=DUTY_STEPS_PPM[-1], reason=why
        )
    share = share_ppm(decision)
    if share <= room:
        return msgspec.structs.replace(decision, duty_ppm=PPM)
    duty = share_step(int(max(0.0, room) / share * PPM))
    takes = (
        f"{decision.trap}: {decision.hit_ns} ns a hit ({costs.source}), at {decision.rate:g} calls"
        f" a second {share / 1e4:.3g} % of a thread"
    )
    if duty:
        return msgspec.structs.replace(
            decision, state="sampled", duty_ppm=duty, reason=f"{takes}: {duty / 1e4:g} % of it"
        )
    return msgspec.structs.replace(decision, state="off", reason=f"{takes}: off for cost")


def share_step(duty_ppm: int) -> int:
    """Return the longest windows that take at most this part of the time; 0 if none do."""
    if duty_ppm >= PPM:
        return PPM
    return next((step for step in DUTY_STEPS_PPM if step <= duty_ppm), 0)
