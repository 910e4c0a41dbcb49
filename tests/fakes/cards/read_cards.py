# SPDX-License-Identifier: Apache-2.0
"""A program that reads the cards of this machine as the agent does; it answers lines on stdin.

`scan` finds the cards and waits until each was read, `turn` waits until each was read again, and
`read` does nothing more. The answer is all readings as one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.agent.devices.amd.vendor import Amd
from stoker.agent.devices.intel.vendor import Intel
from stoker.agent.devices.nvidia.vendor import Nvidia
from stoker.agent.devices.readings import plain
from stoker.agent.devices.registry import Devices

id_of = id
ROUNDS = 13
"""Number of fast rounds within which all other fields are read once."""


def turn(devices: Devices) -> None:
    """Wait until every thread has read all its fields once more. A partition has no thread of its
    own: it is read with its card."""
    cards = [id for id in devices.readings() if not id.startswith("MIG-")]
    before = {id: _rounds(devices, id) for id in cards}
    _wait(lambda: all(_rounds(devices, id) - before[id] > ROUNDS for id in cards))


def _rounds(devices: Devices, id: str) -> int:
    sampled = devices.samplers.get(id)
    return sampled.counts()["rounds"] if sampled is not None else 0


def _wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, "a card is not read"
        time.sleep(0.02)


def answer(devices: Devices) -> dict[str, Any]:
    cards = {}
    addresses = {id: at for scan in devices.scans for id, at in scan.addresses.items()}
    for id, found in devices.readings().items():
        sampled = devices.samplers.get(id)
        assert sampled is not None
        cards[id] = {
            "state": found.state,
            "why": found.why,
            "sim": found.sim,
            "bus_id": addresses.get(id, ""),
            "fields": {name: plain(field) for name, field in found.fields.items()},
            "history": {name: sampled.points(name) for name in ("power_w", "energy_j")},
            "rounds": sampled.counts()["rounds"],
            "object": id_of(sampled.card),
        }
    topology = devices.topology()
    return {
        "cards": cards,
        "known": [[d.id, d.sim, d.numa, d.link, d.bus, d.unavailable] for d in devices.known],
        "link_gbps": {d.id: d.link_gbps for d in devices.known},
        "missing": devices.missing,
        "names": topology.names,
        "matrix": topology.matrix,
    }


def main(folder: str) -> None:
    vendors = [Nvidia({}), Amd({}), Intel({})]
    devices = Devices(vendors, lambda _: False, Path(folder) / "order.json", "boot")
    for line in sys.stdin:
        match line.strip():
            case "scan":
                devices.scan()
                _wait(lambda: devices.samplers.settled)
            case "turn":
                turn(devices)
        print(json.dumps(answer(devices)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
