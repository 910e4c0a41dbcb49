# SPDX-License-Identifier: Apache-2.0
"""Cards of simulated nodes, read through the vendors' unmodified bindings: every field as it is.

The nodes' clocks are virtual, so what a card holds does not change between the reading and the
comparing. Everything here is SIM.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.cards import card_truth
from fakes.cards.card_reader import Reader

from stoker.agent.devices.amd import vendor as amd
from stoker.agent.devices.intel import ports

PROFILES = ("8xH200", "8xA100-MIG", "4xL40S", "8xMI300X", "4xMax1550", "mixed")
Fields = dict[str, Any]


def together(readers: dict[str, Reader], words: str) -> dict[str, Any]:
    for each in readers.values():
        each.say(words)
    return {name: each.hear() for name, each in readers.items()}


def whole(answer: Any) -> list[Any]:
    """The cards of an answer without their partitions."""
    return [card for id, card in answer["cards"].items() if not id.startswith("MIG-")]


@contextmanager
def reader(folder: Path, profile: str, *features: str) -> Iterator[Reader]:
    made = Reader(folder, profile, features)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Reader, Any]]]:
    """Every profile at once: time passes while all are being read, then stands still."""
    readers = {name: Reader(tmp_path_factory.mktemp(name), name) for name in PROFILES}
    try:
        together(readers, "scan")
        for _ in range(14):
            for each in readers.values():
                each.node.advance(100_000_000)
            time.sleep(0.1)
        found = together(readers, "turn")  # everything is read after the clock stood still
        yield {name: (each, found[name]) for name, each in readers.items()}
    finally:
        for each in readers.values():
            each.close()


@pytest.mark.parametrize("profile", PROFILES)
def test_every_field_is_what_the_card_holds(
    read: dict[str, tuple[Reader, Any]], profile: str
) -> None:
    each, answer = read[profile]
    found = {card["bus_id"]: card for card in whole(answer)}
    assert len(found) == each.cards
    for number in range(each.cards):
        truth, sensor = each.node.truth(number), each.node.sensor(number)
        assert sensor is not None
        model = truth["model"]
        card = found[model["bus_id"][-12:].lower()]
        wanted = card_truth.expected(truth, sensor)
        seen = {name: card["fields"][name].get("value", card["fields"][name]) for name in wanted}
        assert seen == wanted
        assert card_truth.unexplained(model["vendor"], wanted, card["fields"]) == []
        assert card_truth.malformed(card["fields"]) == []
        assert (card["state"], card["sim"]) == ("ok", True)


@pytest.mark.parametrize("profile", PROFILES)
def test_links_partitions_and_processes_are_the_cards_own(
    read: dict[str, tuple[Reader, Any]], profile: str
) -> None:
    each, answer = read[profile]
    found = {card["bus_id"]: card["fields"] for card in whole(answer)}
    for number in range(each.cards):
        truth = each.node.truth(number)
        fields = found[truth["model"]["bus_id"][-12:].lower()]
        pids = [row["pid"] for row in fields["processes"]["value"]]
        assert pids == [process["pid"] for process in truth["processes"]]
        links = truth["model"]["links"]
        if links:
            up = [port["up"] for port in fields["links"]["value"]]
            down = truth["now"]["link_down"]
            assert up == [not down >> port & 1 for port in range(links)]
        else:
            assert "absent" in fields["links"]
        if truth["model"]["vendor"] == card_truth.NVIDIA and truth["partitioned"]:
            parts = {(part["uuid"], part["profile"]) for part in fields["partitions"]["value"]}
            assert parts == {(part["uuid"], part["profile"]) for part in truth["partitions"]}


def widths(folder: Path, profile: str) -> Any:
    """Scan a node without faults."""
    each = Reader(folder, profile, broken=False)
    try:
        return each.ask("scan")
    finally:
        each.close()


@pytest.mark.parametrize(
    ("profile", "gbps"),
    [
        ("8xH200", [900]),  # 18 ports to the switches, 50 GB/s each
        ("4xL40S", [0]),
        ("8xMI300X", [128]),  # one port to each other card
        ("4xMax1550", [260]),  # 16 ports to three others: five at least, 52 GB/s each
        ("mixed", [0, 832, 896, 900]),  # all ports between two cards
    ],
)
def test_links_are_as_wide_as_all_ports_between_two_cards(
    tmp_path: Path, profile: str, gbps: list[int]
) -> None:
    assert sorted(set(widths(tmp_path, profile)["link_gbps"].values())) == gbps


def test_a_bandwidth_that_xgmi_does_not_tell_is_not_guessed() -> None:
    """One link to `b` has no bandwidth, so that of both is not known; PCIe is no link."""
    links = [("0000:0b:00.0", "N/A", 2), ("0000:0b:00.0", 512, 2), ("0000:0c:00.0", 512, 2)]
    links += [("0000:0c:00.0", 512, 1), ("0000:0d:00.0", 512, 2)]
    told = [{"bdf": bdf, "max_bandwidth": gbits, "link_type": kind} for bdf, gbits, kind in links]
    assert amd._widths({"links": told}, {"0000:0b:00.0": "b", "0000:0c:00.0": "c"}) == {"c": 128}
    assert amd._widths({}, {}) == {}


@pytest.mark.parametrize(
    ("bits", "lanes", "gbps"), [(52_000_000_000, 4, 52), (-1, 4, 0), (52_000_000_000, -1, 0)]
)
def test_a_port_that_is_not_rated_has_no_bandwidth(bits: int, lanes: int, gbps: int) -> None:
    way = SimpleNamespace(bits=bits, lanes=lanes)
    assert ports._gbps(SimpleNamespace(max_rx=way, max_tx=way)) == gbps


def test_power_and_limits_of_tiles_add_up_to_the_cards(tmp_path: Path) -> None:
    with reader(tmp_path, "4xMax1550", "tile_power") as each:
        each.ask("scan")
        for _ in range(8):
            each.node.advance(100_000_000)
            time.sleep(0.1)
        found = {card["bus_id"]: card for card in each.ask("turn")["cards"].values()}
        for number in range(each.cards):
            truth, sensor = each.node.truth(number), each.node.sensor(number)
            assert sensor is not None
            card = found[truth["model"]["bus_id"][-12:].lower()]
            wanted = card_truth.expected(truth, sensor)
            for name in ("energy_j", "power_limit_w", "power_limit_min_w", "power_limit_max_w"):
                assert card["fields"][name]["value"] == wanted[name]
            _, watts = card["history"]["power_w"][-1]
            assert watts == pytest.approx(truth["now"]["power_w"], rel=0.1)


def test_readings_have_errors_and_absences_have_reasons(
    read: dict[str, tuple[Reader, Any]],
) -> None:
    _, answer = read["8xH200"]
    card = next(iter(answer["cards"].values()))
    power = card["fields"]["power_w"]
    assert power["window_ns"] == 25_000_000 and "25 %" in power["note"]
    assert power["error"] >= 0.05 * power["value"]
    energy = card["fields"]["energy_power_w"]
    assert energy["window_ns"] >= 900_000_000 and energy["error"] > 0
    for name, field in card["fields"].items():
        assert "value" in field or field["absent"], name


def test_power_by_energy_is_that_of_the_card(read: dict[str, tuple[Reader, Any]]) -> None:
    """Host time and the node's own differ: each second of sleep lets about a second pass."""
    each, answer = read["8xH200"]
    card = answer["cards"][each.node.truth(1)["model"]["uuid"]]
    points = dict(card["history"]["energy_j"])
    assert len(points) > 10
    assert list(points) == sorted(points)
    assert max(points.values()) == pytest.approx(card["fields"]["energy_j"]["value"])


@pytest.mark.parametrize(("code", "words"), [(3, "Not Supported"), (13, "Function Not Found")])
def test_a_sensor_that_fails_is_absent_with_nvmls_words(
    tmp_path: Path, code: int, words: str
) -> None:
    """3 is what a driver says of a sensor that a card lacks, 13 of a symbol that it lacks."""
    failing = {
        "nvmlDeviceGetTemperature": ("temperature_c",),
        "nvmlDeviceGetUtilizationRates": ("busy_ratio", "memory_busy_ratio"),
        "nvmlDeviceGetMemoryInfo": ("memory_used_bytes", "memory_free_bytes"),
    }
    with reader(tmp_path, "4xL40S") as each:
        for call in failing:
            each.node.inject("error", -1, value=code, call=call)
        cards = each.ask("scan")["cards"]
        card = cards[each.node.truth(0)["model"]["uuid"]]
        for call, names in failing.items():
            for name in names:
                assert card["fields"][name] == {"absent": f"{call}: {words}"}
        assert "value" in card["fields"]["power_w"]
        assert card["state"] == "ok"


def test_a_process_that_is_gone_has_no_name(tmp_path: Path) -> None:
    with reader(tmp_path, "4xL40S") as each:
        each.node.add_process(1, 2**22 + 1, 1 << 30, 0.5, "trainer")  # no process id is so large
        card = each.ask("scan")["cards"][each.node.truth(1)["model"]["uuid"]]
        rows = card["fields"]["processes"]["value"]
        assert [(row["pid"], row["name"]) for row in rows] == [(2**22 + 1, None)]


def test_an_older_driver_is_read_with_older_calls(tmp_path: Path) -> None:
    """13 is NVML's "function not found": what a library says of a symbol that it lacks."""
    with reader(tmp_path, "4xL40S") as each:
        each.node.inject("error", -1, value=13, call="nvmlDeviceGetFieldValues")
        cards = each.ask("scan")["cards"]
        sensor = each.node.sensor(0)
        assert sensor is not None
        card = cards[each.node.truth(0)["model"]["uuid"]]
        fields = card["fields"]
        assert fields["power_w"]["value"] == sensor["power_mw"] / 1000
        assert fields["energy_j"]["value"] == sensor["energy_mj"] / 1000
        assert "Function Not Found" in fields["memory_temperature_c"]["absent"]
        assert "Function Not Found" in fields["ecc_corrected"]["absent"]
        assert len(card["history"]["power_w"]) > 3
        assert card["state"] == "ok"
