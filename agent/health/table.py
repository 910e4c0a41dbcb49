# SPDX-License-Identifier: Apache-2.0
"""The table of rules from signals to actions; one table serves every vendor.

The actions are: ignore, warn, restart the job, cordon the device, drain the node, reset the card.
The times and counts in the rules are stoker's own. The rest has these sources:
- Xids: `xids.py`
- row remapping, page retirement, contained errors: NVIDIA's "GPU Memory Error Management" and
  "Dynamic Page Retirement"
- recovery actions: nvml.h (nvmlDeviceGpuRecoveryAction_t)
- AMD and Intel: texts of the amdgpu, i915 and xe drivers (`kernel_log.py`)

Invariant: each kind has a rule.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.agent.health.signals import NODE, RESET, Kind
from stoker.agent.health.xids import XIDS, Action, xid

ORDER: tuple[Action, ...] = ("ignore", "warn", "restart", "cordon", "drain", "reset")
HOLDING: frozenset[Action] = frozenset({"cordon", "drain", "reset"})
"""Actions that keep jobs away from the card."""
S = 1_000_000_000
"""Nanoseconds per second."""


class Rule(NamedTuple):
    """The action that a kind of signal leads to, and the time after which the action ends."""

    action: Action
    text: str
    after: int = 1
    """The number of occurrences from which on the rule applies."""
    within_s: float = 0.0
    """The seconds within which these must occur; 0: since the trouble began."""
    clean_s: float = 30.0
    """The seconds without a signal after which the trouble is over; the action `reset` counts them
    from the card's reset."""
    ends: bool = False
    """True if the attempts on the card are ended as well."""


_XID_CLEAN_S: dict[Action, float] = {
    "ignore": 1.0,
    "warn": 60.0,
    "restart": 10.0,
    "cordon": 60.0,
    "drain": 60.0,
    "reset": 5.0,
}
_ENDS: frozenset[Action] = frozenset({"restart", "reset"})

_STORM = Rule("cordon", "again and again", after=50, within_s=60, clean_s=60)
"""A second rule of every Xid with the action `restart`: programs fail one after the other, so the
card itself may be at fault."""

RULES: dict[Kind, tuple[Rule, ...]] = {
    "lost": (Rule("reset", "the card does not answer", clean_s=3, ends=True),),
    "silent": (
        Rule("warn", "nothing of it can be read", clean_s=3),
        Rule("reset", "nothing of it can be read any more", 3, 10, clean_s=3, ends=True),
    ),
    "refused": (Rule("cordon", "the driver refuses the agent", clean_s=3),),
    "mismatch": (Rule("drain", "driver and library differ: load the driver anew", clean_s=3),),
    "missing": (Rule("cordon", "the driver is not loaded", clean_s=3),),
    "hung": (Rule("cordon", "a call into the driver does not return", clean_s=3),),
    "ecc_corrected": (
        Rule("ignore", "corrected memory errors", clean_s=60),
        Rule("warn", "many corrected memory errors", after=100, within_s=60, clean_s=60),
    ),
    "ecc_uncorrected": (
        Rule("restart", "uncorrected memory error", clean_s=10, ends=True),
        Rule("reset", "uncorrected memory errors again", after=3, within_s=3600, ends=True),
    ),
    "page_retired": (Rule("warn", "memory was taken out of use", clean_s=60),),
    "remap_pending": (Rule("warn", "memory will be remapped at the next reset", clean_s=3),),
    "remap_failed": (Rule("reset", "memory could not be remapped: have the card replaced"),),
    "link_down": (Rule("cordon", "a link is down", clean_s=10),),
    "link_errors": (
        Rule("ignore", "link errors", clean_s=60),
        Rule("warn", "many link errors", after=10, within_s=60, clean_s=60),
        Rule("cordon", "link errors without end", after=1000, within_s=60, clean_s=60),
    ),
    "pcie_replays": (
        Rule("ignore", "PCIe packets sent again", clean_s=60),
        Rule("warn", "many PCIe packets sent again", after=100, within_s=60, clean_s=60),
    ),
    "hot": (Rule("warn", "at its slowdown temperature"),),
    "near_shutdown": (Rule("cordon", "near its shutdown temperature", clean_s=30),),
    "memory_hot": (Rule("warn", "memory above its highest temperature"),),
    "slowdown": (Rule("warn", "the hardware slows itself down", clean_s=10),),
    "brake": (Rule("warn", "external power brake", clean_s=10),),
    "throttle_share": (Rule("warn", "held back by heat for most of the time"),),
    "stuck_sensor": (Rule("warn", "the power sensor is stuck", clean_s=10),),
    "lost_samples": (Rule("warn", "readings fail", after=3, within_s=10, clean_s=10),),
    "app_fault": (Rule("restart", "a program's fault on the card", clean_s=10, ends=True),),
    "engine_hang": (
        Rule("restart", "an engine hung", clean_s=10, ends=True),
        Rule("cordon", "engines hang again and again", after=5, within_s=600, clean_s=600),
    ),
    "reset_begun": (Rule("restart", "the driver resets the card", clean_s=10, ends=True),),
    "reset_failed": (Rule("reset", "its reset failed", clean_s=5, ends=True),),
    "wedged": (Rule("reset", "the driver gave the card up", clean_s=5, ends=True),),
    "reset_seen": (Rule("warn", "the card was reset", clean_s=10),),
    "rank_late": (Rule("warn", "a rank on it kept others waiting", clean_s=300),),
    "rank_cordon": (Rule("cordon", "a rank on it kept others waiting", clean_s=3600),),
}
RECOVERY: dict[int, Rule] = {
    RESET: Rule("reset", "the driver asks for a reset of the card", clean_s=3, ends=True),
    NODE: Rule("drain", "the driver asks for a restart of the node", clean_s=3),
}
"""The rules of `recovery`, by the signal's number."""
BY_DRIVER: frozenset[Kind] = frozenset({"recovery", "remap_failed", "lost", "silent"})
"""Kinds that a driver reports until the card is reset: when their signals stop, the card was reset,
and no other proof of a reset is needed."""


def rules(kind: Kind, number: int = 0) -> tuple[Rule, ...]:
    """Return the rules of a signal, the mildest first."""
    if kind == "xid":
        row = xid(number)
        ends = row.action in _ENDS
        one = Rule(row.action, row.text, clean_s=_XID_CLEAN_S[row.action], ends=ends)
        return (one, _STORM) if row.action == "restart" else (one,)
    if kind == "recovery":
        return (RECOVERY.get(number, RECOVERY[NODE]),)
    return RULES[kind]


def worse(one: Action, other: Action) -> Action:
    """Return the severer of two actions."""
    return max(one, other, key=ORDER.index)


def document() -> str:
    """Return the rules and the Xids as two Markdown tables, for the page about health."""
    lines = ["| signal | leads to | when | over after | ends jobs |", "|---|---|---|---|---|"]
    rows = [(kind, rule) for kind, several in RULES.items() for rule in several]
    rows += [("recovery", rule) for rule in RECOVERY.values()]
    lines += [
        f"| `{kind}` | {rule.action} | {_when(rule)} | {_over(rule)} |"
        f" {'yes' if rule.ends else ''} |"
        for kind, rule in rows
    ]
    lines += [
        f"| `xid` that ends the job | {_STORM.action} | {_when(_STORM)} | {_over(_STORM)} | |"
    ]
    lines += ["", "| Xid | says | NVIDIA advises | leads to |", "|---|---|---|---|"]
    used = [row for row in XIDS.values() if row.text != "unused"]
    lines += [f"| {x.number} | {x.text} | {x.advice or '-'} | {x.action} |" for x in used]
    return "\n".join(lines) + "\n"


def _when(rule: Rule) -> str:
    return rule.text if rule.after == 1 else f"{rule.text}: {rule.after} in {rule.within_s:g} s"


def _over(rule: Rule) -> str:
    return f"a reset and {rule.clean_s:g} s" if rule.action == "reset" else f"{rule.clean_s:g} s"
