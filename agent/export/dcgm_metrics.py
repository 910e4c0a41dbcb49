# SPDX-License-Identifier: Apache-2.0
"""NVIDIA cards under the names, units and labels of dcgm-exporter, which existing dashboards read.

Names, units and labels: github.com/NVIDIA/dcgm-exporter 4.8, etc/default-counters.csv and
internal/pkg/rendermetrics. Pure. Invariant: a field that is not read is absent, where dcgm-exporter
might write 0. A card that one job holds carries that job (`hpc_job`, as dcgm-exporter's mapping of
HPC jobs calls it); a card that several share carries none, so that no sum counts it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stoker.agent.devices.readings import CardReadings
from stoker.agent.export.device_metrics import number, sole_holders
from stoker.agent.jobs.start_records import StartRecord
from stoker.probes.otlp.otlp_encoder import Attributes
from stoker.probes.otlp.prometheus_text import Family
from stoker.scheduler.names import DEFAULT_QUEUE
from stoker.scheduler.nouns import DeviceInfo

MIB = 1 << 20
MHZ = 1e6


class DcgmField(NamedTuple):
    """A field of ours as one of DCGM's: the value is divided by `unit`."""

    name: str
    field: str
    unit: float
    counter: bool
    help: str


def _gauge(name: str, field: str, help: str, unit: float = 1) -> DcgmField:
    return DcgmField(f"DCGM_FI_{name}", field, unit, False, help)


def _counter(name: str, field: str, help: str, unit: float = 1) -> DcgmField:
    return DcgmField(f"DCGM_FI_{name}", field, unit, True, help)


ROWS: tuple[DcgmField, ...] = (
    _gauge("DEV_SM_CLOCK", "clock_hz", "Clock of the SMs, in MHz.", MHZ),
    _gauge("DEV_MEM_CLOCK", "memory_clock_hz", "Clock of the memory, in MHz.", MHZ),
    _gauge("DEV_MEMORY_TEMP", "memory_temperature_c", "Temperature of the memory, in C."),
    _gauge("DEV_GPU_TEMP", "temperature_c", "Temperature of the die, in C."),
    _gauge("DEV_POWER_USAGE", "power_w", "Power, in W."),
    _counter("DEV_TOTAL_ENERGY_CONSUMPTION", "energy_j", "Energy, in mJ.", 1e-3),
    _counter("DEV_PCIE_REPLAY_COUNTER", "pcie_replays", "PCIe packets sent again."),
    _gauge("DEV_GPU_UTIL", "busy_ratio", "Time in which a kernel ran, in %.", 1e-2),
    _gauge("DEV_MEM_COPY_UTIL", "memory_busy_ratio", "Time with memory accessed, in %.", 1e-2),
    _gauge("DEV_FB_FREE", "memory_free_bytes", "Memory not in use, in MiB.", MIB),
    _gauge("DEV_FB_USED", "memory_used_bytes", "Memory in use, in MiB.", MIB),
    _gauge("DEV_FB_TOTAL", "memory_total_bytes", "Memory, in MiB.", MIB),
    _counter("DEV_POWER_VIOLATION", "throttle_power_ns", "Time throttled by power, in ns."),
    _counter("DEV_THERMAL_VIOLATION", "throttle_thermal_ns", "Time throttled by heat, in ns."),
    _counter("DEV_SYNC_BOOST_VIOLATION", "throttle_sync_ns", "Time held by sync boost, in ns."),
    _counter("DEV_BOARD_LIMIT_VIOLATION", "throttle_board_ns", "Time at the board limit, in ns."),
    _counter(
        "DEV_RELIABILITY_VIOLATION", "throttle_reliability_ns", "Time for reliability, in ns."
    ),
    _counter("DEV_ECC_SBE_VOL_TOTAL", "ecc_corrected", "Corrected errors since the driver loaded."),
    _counter("DEV_ECC_DBE_VOL_TOTAL", "ecc_uncorrected", "Uncorrected ones since then."),
    _counter("DEV_ECC_SBE_AGG_TOTAL", "ecc_corrected_total", "Corrected errors in its life."),
    _counter("DEV_ECC_DBE_AGG_TOTAL", "ecc_uncorrected_total", "Uncorrected ones in its life."),
    _counter("DEV_RETIRED_PENDING", "retired_pending", "Pages to be retired."),
    _gauge("DEV_ROW_REMAP_FAILURE", "remap_failed", "1 if a row could not be remapped."),
    _gauge("PROF_SM_ACTIVE", "sm_ratio", "Share of SM time with a warp resident."),
    _gauge("PROF_PIPE_TENSOR_ACTIVE", "tensor_ratio", "Share of time of the tensor cores."),
    _gauge("PROF_DRAM_ACTIVE", "memory_bandwidth_ratio", "Share of the memory bandwidth."),
)
XID = "DCGM_FI_DEV_XID_ERRORS"
XID_HELP = "The last Xid of the card since the agent started."


def families(
    node: str,
    devices: Iterable[DeviceInfo],
    cards: Sequence[CardReadings],
    starts: Iterable[StartRecord],
    xids: Mapping[str, tuple[int, int]],
) -> Iterator[Family]:
    """Yield the families of the NVIDIA cards in this order. `xids`: card -> (last, count)."""
    infos = {info.id: info for info in devices if info.vendor == "nvidia" and not info.profile}
    mine = [card for card in cards if card.id in infos]
    held = sole_holders(starts)
    named = [
        (card, _labels(node, place, infos[card.id], card, held.get(card.id)))
        for place, card in enumerate(sorted(mine, key=_bus))
    ]
    read = [(card, labels) for card, labels in named if card.state == "ok"]
    for row in ROWS:
        found = [(labels, number(card, row.field)) for card, labels in read]
        samples = [("", labels, _value(v, row.unit)) for labels, v in found if v is not None]
        yield Family(row.name, "counter" if row.counter else "gauge", row.help, samples)
    last = [("", labels, xids[card.id][0]) for card, labels in named if card.id in xids]
    yield Family(XID, "gauge", XID_HELP, last)


def _bus(card: CardReadings) -> str:
    """Return what NVML orders its GPUs by: the PCI address."""
    return _text(card, "bus_id").rjust(16, "0")


def _text(card: CardReadings, name: str) -> str:
    found = getattr(card.fields.get(name), "value", None)
    return found if isinstance(found, str) else ""


def _value(value: int | float, unit: float) -> int | float:
    return value if unit == 1 else round(value / unit, 6)


def _labels(
    node: str, place: int, info: DeviceInfo, card: CardReadings, holder: StartRecord | None
) -> Attributes:
    domain, _, rest = _text(card, "bus_id").partition(":")
    return (
        ("gpu", place),
        ("UUID", _text(card, "uuid") or info.id),
        ("pci_bus_id", f"{domain:0>8}:{rest}".upper() if rest else ""),
        ("device", f"nvidia{place}"),
        ("modelName", f"{info.model} SIM" if card.sim else info.model),
        ("hostname", node),
        ("Hostname", node),
        ("DCGM_FI_DRIVER_VERSION", _text(card, "driver") or info.driver),
        *(_job(holder) if holder is not None else ()),
        *((("sim", "SIM"),) if card.sim else ()),
    )


def _job(holder: StartRecord) -> Attributes:
    return (
        ("hpc_job", str(holder.job)),
        ("user", holder.user),
        ("queue", holder.queue or DEFAULT_QUEUE),
    )
