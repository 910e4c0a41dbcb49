# SPDX-License-Identifier: Apache-2.0
"""Records of a thread in C decoded: values with units, absences with the driver's words."""

from __future__ import annotations

from math import nan

import pytest

from stoker.agent.devices.fields import FAST, REASONS, SLOWED, SPECS
from stoker.agent.devices.readings import Absent, Reading, Trouble
from stoker.agent.devices.record import (
    FIELD,
    LINK,
    NO_CALL,
    NOT_READ,
    PLACES,
    PROCESS,
    Decoder,
    RecordCopy,
    links,
    processes,
)
from stoker.native import _devices

Row = tuple[float, int, int, int, int, int]
"""Members of struct sk_device_field: value, t_ns, code, call, number, window_us."""


def words(code: int) -> tuple[str, Trouble]:
    return f"code {code}", "lost" if code == 15 else ""


def copied(rows: dict[str, Row], lists: tuple[bytes, bytes] = (b"", b"")) -> RecordCopy:
    """A record with these rows; all other fields are not read."""
    nothing: Row = (nan, 0, NOT_READ, NO_CALL, 0, 0)
    packed = b"".join(FIELD.pack(*rows.get(name, nothing), 0) for name in PLACES)
    return RecordCopy(1, 2_000, 1_000, packed, *lists)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder("nvidia", words)


def test_every_field_of_the_record_is_in_the_table_and_all_fast_ones_are_in_it() -> None:
    assert set(PLACES) <= set(SPECS)
    assert set(FAST) <= set(PLACES)
    assert {kind for _, kind in _devices.FIELDS} == {"real", "whole", "flag", "bits", "list"}


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel"])
def test_every_vendor_names_its_calls_each_once(vendor: str) -> None:
    calls = _devices.calls(vendor)
    assert all(calls) and len(set(calls)) == len(calls) > 10


def test_values_have_units_times_and_windows(decoder: Decoder) -> None:
    found = decoder.fields(
        copied(
            {
                "power_w": (75.5, 0, 0, 0, 0, 25_000),
                "energy_j": (3.5, 1_500, 0, 0, 0, 0),
                "ecc_corrected": (7.0, 0, 0, 0, 0, 0),
                "ecc_enabled": (1.0, 0, 0, 0, 0, 0),
            }
        )
    )
    assert found == {
        "power_w": Reading(75.5, "W", 2_000, 25_000_000),
        "energy_j": Reading(3.5, "J", 1_500),
        "ecc_corrected": Reading(7, "1", 1_000),
        "ecc_enabled": Reading(True, "", 1_000),
    }
    assert isinstance(found["ecc_corrected"].value, int)  # type: ignore[union-attr]


def test_reasons_are_words_and_faults_are_among_them(decoder: Decoder) -> None:
    bits = float(sum(1 << REASONS.index(word) for word in SLOWED))
    found = decoder.fields(copied({"throttle": (bits, 0, 0, 0, 0, 0)}))["throttle"]
    assert isinstance(found, Reading) and set(found.value) == SLOWED
    assert int(bits) == _devices.FAULTS


def test_codes_are_the_drivers_words_with_the_call_and_what_they_say_of_the_card(
    decoder: Decoder,
) -> None:
    calls = _devices.calls("nvidia")
    heat, field = calls.index("nvmlDeviceGetTemperature"), calls.index("NVML field")
    found = decoder.fields(
        copied(
            {
                "temperature_c": (nan, 0, 15, heat, 0, 0),
                "memory_temperature_c": (nan, 0, 3, field, 82, 0),
                "energy_power_w": (nan, 0, -3, NO_CALL, 0, 0),
                "processes": (nan, 0, 4, heat, 0, 0),
            }
        )
    )
    assert found == {
        "temperature_c": Absent("nvmlDeviceGetTemperature: code 15", "lost"),
        "memory_temperature_c": Absent("NVML field 82: code 3"),
        "energy_power_w": Absent("the counter was not read for a second yet"),
        "processes": Absent("nvmlDeviceGetTemperature: code 4"),
    }


def test_rows_of_lists_have_no_value_where_the_driver_gave_none() -> None:
    ports = LINK.pack(5.0, nan, nan, 7, 3, 1)
    running = PROCESS.pack(nan, 0.5, 812, 1, b"trainer") + PROCESS.pack(1.0, nan, 813, 0, b"")
    found = copied({}, (ports, running))
    (port,) = links(found)
    assert port.row("0000:05:00.0", "gpu") == {
        "port": 3,
        "up": True,
        "peer": "0000:05:00.0",
        "peer_kind": "gpu",
        "tx_bytes": 5,
        "rx_bytes": None,
        "errors": None,
    }
    assert [tuple(each) for each in processes(found)] == [
        (812, "graphics", "trainer", None, 0.5),
        (813, "compute", None, 1, None),
    ]
