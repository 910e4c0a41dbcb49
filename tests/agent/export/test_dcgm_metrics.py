# SPDX-License-Identifier: Apache-2.0
"""DCGM's names, units and labels, and what is not there."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.agent.devices.fields import complete, reading
from stoker.agent.devices.readings import CardReadings
from stoker.agent.export import dcgm_metrics
from stoker.agent.jobs.start_records import StartRecord
from stoker.probes.otlp.prometheus_text import Family
from stoker.scheduler.nouns import DeviceInfo

INFO = DeviceInfo("GPU-b", "nvidia", "NVIDIA H200", driver="580.1")
MINE = StartRecord(
    7, 1, 0, 0, 0, 1000, 5.0, gpu_milli=1000, devices=("GPU-b",), user="alice", queue="q"
)


def card(id: str, bus: str, **values: Any) -> CardReadings:
    fields = {"bus_id": bus, "uuid": id, **values}
    made = {name: reading(name, value, 5) for name, value in fields.items()}
    return CardReadings(id, 9, complete(made, "not read"))


def told(*cards: CardReadings, **fields: Any) -> dict[str, Family]:
    infos = fields.pop("infos", (INFO, msgspec.structs.replace(INFO, id="GPU-a")))
    starts, xids = fields.pop("starts", ()), fields.pop("xids", {})
    found = dcgm_metrics.families("node1", infos, cards, starts, xids)
    return {each.name: each for each in found if each.samples}


def test_units_are_dcgms() -> None:
    found = told(
        card(
            "GPU-b", "0000:3b:00.0", clock_hz=1.98e9, energy_j=12.5, busy_ratio=0.25,
            memory_used_bytes=3 << 20, power_w=301.5, tensor_ratio=0.5, throttle_power_ns=77,
            ecc_corrected=3,
        )
    )  # fmt: skip
    assert {name: family.samples[0][2] for name, family in found.items()} == {
        "DCGM_FI_DEV_SM_CLOCK": 1980,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 12500,
        "DCGM_FI_DEV_GPU_UTIL": 25,
        "DCGM_FI_DEV_FB_USED": 3,
        "DCGM_FI_DEV_POWER_USAGE": 301.5,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.5,
        "DCGM_FI_DEV_POWER_VIOLATION": 77,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 3,
    }, "and what was not read is absent"


def labels(family: Family, sample: int = 0) -> dict[str, Any]:
    return dict(family.samples[sample][1])


def test_labels_are_dcgm_exporters_with_gpus_in_the_order_of_their_addresses() -> None:
    cards = (card("GPU-b", "0001:3b:00.0", power_w=1), card("GPU-a", "0000:d8:00.0", power_w=2))
    family = told(*cards, starts=(MINE,))["DCGM_FI_DEV_POWER_USAGE"]
    assert labels(family)["UUID"] == "GPU-a" and labels(family)["gpu"] == 0
    assert labels(family, 1) == {
        "gpu": 1,
        "UUID": "GPU-b",
        "pci_bus_id": "00000001:3B:00.0",
        "device": "nvidia1",
        "modelName": "NVIDIA H200",
        "hostname": "node1",
        "Hostname": "node1",
        "DCGM_FI_DRIVER_VERSION": "580.1",
        "hpc_job": "7",
        "user": "alice",
        "queue": "q",
    }


def test_a_card_that_two_jobs_share_has_one_series_and_names_none() -> None:
    other = msgspec.structs.replace(MINE, job=8)
    family = told(card("GPU-b", "0000:3b:00.0", power_w=1), starts=(MINE, other))
    (sample,) = family["DCGM_FI_DEV_POWER_USAGE"].samples
    assert "hpc_job" not in dict(sample[1])


def test_a_simulated_card_says_so_in_its_name_and_in_a_label() -> None:
    made = msgspec.structs.replace(card("GPU-b", "0000:3b:00.0", power_w=1), sim=True)
    found = labels(told(made)["DCGM_FI_DEV_POWER_USAGE"])
    assert found["modelName"] == "NVIDIA H200 SIM" and found["sim"] == "SIM"


def test_cards_of_other_vendors_and_cards_in_trouble_have_none() -> None:
    amd = msgspec.structs.replace(INFO, vendor="amd")
    assert told(card("GPU-b", "0000:3b:00.0", power_w=1), infos=(amd,)) == {}
    lost = msgspec.structs.replace(card("GPU-b", "0000:3b:00.0", power_w=1), state="lost")
    found = told(lost, xids={"GPU-b": (79, 2)})
    assert list(found) == [dcgm_metrics.XID]
    assert found[dcgm_metrics.XID].samples[0][2] == 79


def test_a_family_is_a_counter_where_dcgm_exporter_says_so() -> None:
    found = told(card("GPU-b", "0000:3b:00.0", energy_j=1, temperature_c=2))
    kinds = {name: family.kind for name, family in found.items()}
    assert kinds == {
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "counter",
        "DCGM_FI_DEV_GPU_TEMP": "gauge",
    }
