# SPDX-License-Identifier: Apache-2.0
"""The cost of sampling the cards of a node: `python -m stoker.agent.devices.bench`.

This process makes a simulated node (SIM). A child process finds the cards through the vendor's
binding and samples them as an agent does. It reports the cost twice: with all fields decoded each
second, and with fields decoded as seldom as health does while nothing changes. It also reports two
costs that no sampler can avoid: the driver calls of one second in a bare loop, and threads that
wake and do nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.agent.devices.card import Calls, DrivenCard
from stoker.agent.devices.fields import PERIOD_NS
from stoker.agent.devices.registry import Devices
from stoker.agent.devices.samplers.driven import QUIET, TOGETHER
from stoker.agent.devices.samplers.sampled import HUNG_NS
from stoker.agent.devices.samplers.sampler import Samplers
from stoker.native._devices import CardReader, second_s

WARM_S = 2.5
REPLAY_ROUNDS = 5
IDLE_S = 2.0
"""Duration of the measurement of threads that do nothing."""
HANG_CALL = {1: "nvmlDeviceGetTemperature", 2: "amdsmi_get_gpu_metrics_info", 3: "zesFrequency"}
"""Vendor -> a function of its driver that is called in every fast round, to be hung."""
TARGET_SHARE, TARGET_MIB = 0.01, 60.0
Made = list[tuple[Callable[..., Any], tuple[Any, ...]]]


def run(profile: str, seconds: float) -> dict[str, Any]:
    """Measure on a simulated node of this profile."""
    from stoker.probes.simdriver import libraries, profiles

    cards = profiles.load(profile)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-", dir="/dev/shm") as folder:
        path = Path(folder) / "node"
        node = profiles.node(profile, path)
        for card in range(len(cards)):
            node.set_load(card, 0.7, 0.3, 0.2)
        vendors = {card["vendor"] for card in cards}
        told = libraries.environment(path, vendors)
        argv = [sys.executable, "-m", __spec__.name if __spec__ else "", "--child", str(seconds)]
        argv += ["--hang", HANG_CALL[cards[0]["vendor"]], "--state", folder]
        done = subprocess.run(argv, env=told, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return {"profile": profile, "cards": len(cards), "simulated": True, **found}


def child(seconds: float, hang: str, folder: Path) -> dict[str, Any]:
    """Measure in the environment of the simulated node; runs in the child process."""
    from stoker.native import _sim

    gc.freeze()
    gc.set_threshold(20_000)  # as the agent has it
    devices = Devices.of({}, lambda _: False, folder / "order.json", "bench")
    devices.scan()
    sampled = [id for id, each in devices.readings().items() if each.sim]
    time.sleep(WARM_S)
    before, cpu, begun = dict(devices.samplers.counters()), _cpu_s(), time.monotonic()
    _observe(devices, begun + seconds, 1)
    passed, used = time.monotonic() - begun, _cpu_s() - cpu
    after = devices.samplers.counters()
    seldom, begun = _cpu_s(), time.monotonic()
    _observe(devices, begun + seconds, QUIET)
    seldom = (_cpu_s() - seldom) / (time.monotonic() - begun)
    made = {name: after[name] - before.get(name, 0) for name in after}
    memory = _rss_mib()
    floor = _floor(devices.samplers, sampled)
    node = _sim.Node.open()
    reported = _hung(devices.samplers, node, hang, sampled)
    node.heal()
    devices.close()
    idle = _idle(len(sampled))
    return {
        "sampled": len(sampled),
        "seconds": round(passed, 2),
        "cpu_share": used / passed,
        "cpu_share_target": TARGET_SHARE,
        "cpu_share_seldom_decoded": seldom,
        "floor_calls_share": floor,
        "floor_threads_share": idle,
        "ratio": used / passed / (floor + idle) if floor + idle else None,
        "rss_mib": memory,
        "rss_mib_target": TARGET_MIB,
        "calls_per_s": made.get("devices_calls", 0) / passed,
        "rounds_per_s": made.get("devices_rounds", 0) / passed,
        "late": made.get("devices_late", 0),
        "missed": made.get("devices_missed", 0),
        "failed": made.get("devices_failed", 0),
        **reported,
    }


def _observe(devices: Devices, until: float, looks_s: int) -> None:
    """Read as the agent does: troubles four times a second, samples once a second, and all fields
    of each card every `looks_s` seconds."""
    turn = 0
    while time.monotonic() < until:
        devices.samplers.troubles()
        if turn % 4 == 0:
            devices.sample()
        if turn % (4 * looks_s) == 0:
            devices.readings()
        turn += 1
        time.sleep(0.25)


def _floor(samplers: Samplers, ids: list[str]) -> float:
    """Share of a core that the calls of one second take in a bare loop, the best of several."""
    recorded: dict[str, Made] = {id: [] for id in ids}
    _recording(samplers, recorded)
    calls = [call for made in recorded.values() for call in made]
    best = float("inf")
    for _ in range(REPLAY_ROUNDS):
        begun = time.thread_time()
        for function, arguments in calls:
            function(*arguments)
        best = min(best, time.thread_time() - begun)
    cards = [each.card for id in ids if (each := samplers.get(id)) is not None]
    driven = [card for card in cards if isinstance(card, DrivenCard)]
    return best + sum(second_s(card.table, card.address_of_handle()) for card in driven)


def _idle(cards: int) -> float:
    """Share of a core that threads in C take, one a card, that wake and do nothing."""
    phases = [PERIOD_NS * place // cards // TOGETHER for place in range(cards)]
    readers = [CardReader("idle", 0, PERIOD_NS, phase) for phase in phases]
    cpu, begun = _cpu_s(), time.monotonic()
    time.sleep(IDLE_S)
    share = (_cpu_s() - cpu) / (time.monotonic() - begun)
    for reader in readers:
        reader.stop()
    return share


def _recording(samplers: Samplers, recorded: dict[str, Made]) -> None:
    """Record every call of every card for one second."""
    plain = Calls.make
    cards = {id: each.card for id in recorded if (each := samplers.get(id)) is not None}
    ids = {id_of(card.calls): id for id, card in cards.items()}

    def noted(self: Calls, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        found = plain(self, name, function, *arguments)
        if id_of(self) in ids:
            recorded[ids[id_of(self)]].append((function, arguments))
        return found

    Calls.make = noted  # type: ignore[method-assign]
    try:
        time.sleep(1.0)
    finally:
        Calls.make = plain  # type: ignore[method-assign]


def id_of(calls: Calls) -> int:
    return id(calls)


def _hung(samplers: Samplers, node: Any, call: str, ids: list[str]) -> dict[str, Any]:
    """Hang the first card's calls: time until it is reported, and rounds of the other cards."""
    first = str(node.truth(0)["model"]["uuid"])
    ids = [first, *(id for id in ids if id != first)]
    before = {id: each.counts() for id in ids if (each := samplers.get(id)) is not None}
    begun = time.monotonic()
    node.inject("hang", card=0, call=call)
    state, why = "ok", ""
    while state != "hung" and time.monotonic() - begun < 5 * HUNG_NS / 1e9:
        time.sleep(0.05)
        state, why = samplers.troubles().get(ids[0], ("ok", ""))
    after_s = time.monotonic() - begun
    others = {id: each.counts() for id in ids[1:] if (each := samplers.get(id)) is not None}
    rounds = [(now["rounds"] - before[id]["rounds"]) / after_s for id, now in others.items()]
    late = sum(now["late"] - before[id]["late"] for id, now in others.items())
    return {
        "hang_reported_s": round(after_s, 3) if state == "hung" else None,
        "hang_why": why,
        "others_rounds_per_s": min(rounds, default=0.0),
        "others_late": late,
        "threads": threading.active_count(),
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _rss_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def text(result: dict[str, Any]) -> str:
    """The result as lines for a person."""
    hang = result["hang_reported_s"]
    said = f"{hang:.2f} s ({result['hang_why']})" if hang is not None else "never"
    return "\n".join(
        (
            f"{result['sampled']} cards of {result['profile']} (SIM), {result['seconds']:g} s",
            f"CPU      {result['cpu_share'] * 100:.2f} % of a core"
            f" (target {TARGET_SHARE * 100:g} %), every field decoded each second;"
            f" {result['cpu_share_seldom_decoded'] * 100:.2f} % decoded every {QUIET} s",
            f"floor    {result['floor_calls_share'] * 100:.2f} % the same calls in a loop,"
            f" {result['floor_threads_share'] * 100:.2f} % threads that only wake",
            f"memory   {result['rss_mib']:.1f} MiB (target {TARGET_MIB:g})",
            f"calls    {result['calls_per_s']:.0f}/s in {result['rounds_per_s']:.0f} rounds/s",
            f"late     {result['late']}, missed {result['missed']}, failed {result['failed']}",
            f"hang     said after {said}; the others {result['others_rounds_per_s']:.1f} rounds/s",
        )
    )


def main() -> int:
    """Print the result; 2 where there is no simulated driver."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--profile", default="8xH200")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", type=float)
    parser.add_argument("--hang", default="")
    parser.add_argument("--state", type=Path, default=Path())
    asked = parser.parse_args()
    if asked.child is not None:
        print(json.dumps(child(asked.child, asked.hang, asked.state)), flush=True)
        os._exit(0)  # the thread that hangs must not delay the exit
    result = run(asked.profile, asked.seconds)
    print(json.dumps(result, indent=2) if asked.json else text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
