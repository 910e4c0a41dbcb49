# SPDX-License-Identifier: Apache-2.0
"""The efficiency of a job in words: a name, its evidence, a remedy that fits the job's state."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from stoker.mesh.wire import bottleneck
from stoker.mesh.wire.bottleneck import Bottleneck
from stoker.tui.calls.efficiency import Efficiency, Throttled
from stoker.tui.render import efficiency

HOUR_NS = 3_600_000_000_000


POWER: dict[str, Any] = {
    "source": "counter",
    "busy_ns": 3_000_000_000,
    "error_ns": 100_000_000,
    "causes": [{"cause": "power", "ns": 3_000_000_000, "error_ns": 0}],
}


def explained(state: str = "running", **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": "idle", "share": 0.98, "second": None, "second_share": 0.0}
    made |= {"busy": 0.02, "held_ns": 4 * HOUR_NS, "idle_ns": 2 * HOUR_NS, "devices": 1}
    known = fields.pop("known", True)
    found = Bottleneck(
        **(made | {k: v for k, v in fields.items() if k in Bottleneck.__annotations__})
    )
    rest = {"ran_ns": HOUR_NS, "absent": "", "cpus": None, "cpus_asked": None}
    rest |= {"memory_peak_bytes": None, "memory_asked_bytes": None}
    rest |= {"throttled": (), "throttled_absent": "", "energy_j": None}
    rest |= {"wasted_ns": found.idle_ns if known else None}
    rest |= {k: v for k, v in fields.items() if k in rest}
    whole = Efficiency(bottleneck=found if known else None, **rest)
    return {"job": 7, "state": state, "efficiency": msgspec.to_builtins(whole)}


def said(row: dict[str, Any]) -> str:
    return "\n".join(f"{label}{words}" for label, words in efficiency.lines(row))


def test_an_idle_job_is_told_how_to_end_and_what_it_wasted() -> None:
    assert said(explained()) == (
        "bottleneck: idle: no process of the job used the devices for 98 % of the device time\n"
        "  remedy: end it if nobody needs it: stoker cancel 7\n"
        "used: GPU 2 % busy, held but idle for 2h 00m, 2.00 GPU-hours wasted"
    )
    assert "stoker cancel" not in said(explained("succeeded"))


def test_the_card_of_a_part_of_several_devices_has_energy_and_what_was_wasted() -> None:
    row = explained("succeeded", devices=4, energy_j=540_000.0, wasted_ns=HOUR_NS)
    assert said(row).endswith(
        "used: GPU 2 % busy of 4, energy 0.15 kWh, held but idle for 30m 00s on average, "
        "1.00 GPU-hours wasted"
    )


def test_launches_and_a_second_cause_are_evidence() -> None:
    row = explained(name="launch-bound", share=0.6, second="blocked", second_share=0.3)
    row["efficiency"]["bottleneck"] |= {"launches": 63_800, "kernel_ns": 8_000}
    first = said(row).split("\n")[0]
    assert first.endswith(
        "for 60 % of the device time, 63,800 launches of 8 us each; then blocked, 30 %"
    )


def test_a_throttled_device_is_named_with_the_cause_and_whose_word_that_is() -> None:
    row = explained(
        name="GPU-bound",
        throttled=(
            Throttled("GPU-a", 3_000_000_000, 0.12, POWER),
            Throttled("rank 3", 500_000_000, 0.02, None),
        ),
    )
    assert [line for line in said(row).split("\n") if line.startswith("  throttled: ")] == [
        "  throttled: GPU-a for 12 % of its time, 3 s: by power 3 s by the driver's counters,"
        " within 100 ms",
        "  throttled: rank 3 for 2 % of its time, 500 ms",
    ]


def test_many_throttled_devices_are_counted_and_unknown_throttling_has_its_reason() -> None:
    many = tuple(Throttled(f"GPU-{n}", 10**9, 0.5, None) for n in range(9))
    text = said(explained(throttled=many))
    assert text.count("  throttled: GPU-") == 4 and "  throttled: and 5 more devices" in text
    why = "its driver tells no reasons"
    assert f"  throttled: not known: {why}" in said(explained(throttled_absent=why))
    assert "throttled: " not in said(explained())


def test_the_use_of_an_ended_job() -> None:
    row = explained("failed", cpus=1.5, cpus_asked=2.0, idle_ns=0)
    row["efficiency"] |= {"memory_peak_bytes": 1 << 29, "memory_asked_bytes": 1 << 30}
    used = said(row).split("\n")[-1]
    assert used == "used: GPU 2 % busy, 1.50 of 2 CPUs, memory 512 MiB of 1 GiB at its peak"


def test_a_device_among_several_that_nobody_used_is_named() -> None:
    row = explained(name="GPU-bound", share=0.6, devices=2, idle_devices=("gpu-1",))
    assert "  idle: gpu-1 was held and hardly used: ask for fewer GPUs" in said(row)
    assert "used: GPU 2 % busy of 2" in said(row)


@pytest.mark.parametrize("name", get_args(bottleneck.Name))
def test_every_bottleneck_has_words(name: str) -> None:
    told = said(explained(name=name))
    assert told.startswith(f"bottleneck: {name}: ")
    assert ("remedy" in told) == (name != "GPU-bound")
    assert "{job}" not in told


def test_what_is_not_known_is_said_with_its_reason() -> None:
    assert said(explained(known=False, absent="it was not traced")) == (
        "bottleneck: not known: it was not traced"
    )
    assert said(explained(known=False)) == ""
    assert said({"job": 7, "state": "pending"}) == ""
