# SPDX-License-Identifier: Apache-2.0
"""Trouble of a card is a state with a reason, for each vendor; other cards are unaffected.

Cards are simulated ones (SIM), read through the vendors' unmodified bindings.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.cards.card_reader import Reader

from stoker.agent.devices.amd.sysfs_card import SysfsCard
from stoker.agent.devices.amd.vendor import Amd
from stoker.agent.devices.intel.vendor import Intel
from stoker.agent.devices.opencl import OpenCL
from stoker.agent.devices.samplers.sampler import sampled_of
from stoker.probes.simdriver import profiles
from stoker.probes.simdriver.sysfs import SysfsTree

HANGS = {
    "8xH200": "nvmlDeviceGetTemperature",
    "8xMI300X": "amdsmi_get_gpu_metrics_info",
    "4xMax1550": "zesPowerGetEnergyCounter",
}
"""Profile -> function that is called in every fast round, to be hung."""
GONE = {"8xH200": "mismatch", "8xMI300X": "missing", "4xMax1550": "missing"}
"""Profile -> state of its cards while another version replaces the driver."""
HUNG, LOST, REFUSED, WELL = 0, 1, 2, 3
LOOKS_S = 15


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Reader]]:
    made = {name: Reader(tmp_path_factory.mktemp(name), name) for name in HANGS}
    try:
        for each in made.values():
            each.say("scan")
        for each in made.values():
            each.hear()
        yield made
    finally:
        for each in made.values():
            each.close()


def states(each: Reader) -> dict[int, tuple[str, str]]:
    """Card -> its present state and reason."""
    cards = each.ask()["cards"]
    ids = [each.node.truth(card)["model"]["uuid"] for card in range(4)]
    return {number: (cards[id]["state"], cards[id]["why"]) for number, id in enumerate(ids)}


def until(
    readers: dict[str, Reader], wanted: Callable[[str, dict[int, tuple[str, str]]], bool]
) -> dict[str, dict[int, tuple[str, str]]]:
    """Read until all cards have the wanted states, or for a time that only a broken reader
    takes."""
    end = time.monotonic() + LOOKS_S
    while True:
        found = {name: states(each) for name, each in readers.items()}
        if all(wanted(name, each) for name, each in found.items()) or time.monotonic() > end:
            return found
        time.sleep(0.05)


def test_each_trouble_is_a_state_of_its_card_and_the_others_are_read_on(
    readers: dict[str, Reader],
) -> None:
    for name, each in readers.items():
        each.node.inject("hang", HUNG, call=HANGS[name])
        each.node.inject("lost", LOST)
        each.node.inject("permission", REFUSED)
    readers["8xH200"].node.inject("error", WELL, value=3, call="nvmlDeviceGetUtilizationRates")
    wanted = {HUNG: "hung", LOST: "lost", REFUSED: "refused", WELL: "ok"}
    before = {name: each.ask()["cards"] for name, each in readers.items()}
    found = until(readers, lambda _, by: {n: s for n, (s, _) in by.items()} == wanted)
    for name, by in found.items():
        assert {number: state for number, (state, _) in by.items()} == wanted, name
        assert f"hung call {HANGS[name]}" in by[HUNG][1]
        assert all(why for number, (_, why) in by.items() if number != WELL)
        id = readers[name].node.truth(WELL)["model"]["uuid"]
        passed = readers[name].ask()["cards"][id]["rounds"] - before[name][id]["rounds"]
        assert passed > 2, name
    for name, each in readers.items():
        well, hung = (each.node.truth(number)["model"]["uuid"] for number in (WELL, HUNG))
        last, scanned = each.ask()["cards"], each.ask("scan")["cards"]
        assert scanned[well]["object"] == last[well]["object"], name
        assert scanned[well]["rounds"] >= last[well]["rounds"], name  # by the same reader
        is_same = scanned[hung]["object"] == last[hung]["object"]
        assert is_same == (name == "8xH200"), name  # a domain's handle may be stale, NVML's is not
    card = readers["8xH200"].node.truth(WELL)["model"]["uuid"]
    fields = readers["8xH200"].ask()["cards"][card]["fields"]
    assert "Not Supported" in fields["busy_ratio"]["absent"] and "value" in fields["power_w"]
    for each in readers.values():
        each.node.heal()
    found = until(readers, lambda _, by: {s for s, _ in by.values()} == {"ok"})
    assert {state for by in found.values() for state, _ in by.values()} == {"ok"}


def test_a_driver_of_another_version_is_a_state_of_all_its_cards(
    readers: dict[str, Reader],
) -> None:
    for each in readers.values():
        each.node.inject("reload")
    found = until(readers, lambda name, by: {s for s, _ in by.values()} == {GONE[name]})
    for name, by in found.items():
        assert {state for state, _ in by.values()} == {GONE[name]}, name
        assert all(why for _, why in by.values())


# --- by files alone -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "state"),
    [(errno.EACCES, "refused"), (errno.ENODEV, "lost"), (errno.EIO, "lost")],
)
def test_files_that_are_refused_or_gone_are_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, state: str
) -> None:
    SysfsTree(tmp_path, profiles.node("8xMI300X", seed=3)).write()
    (card, *_) = Amd({}, NoSmi(), tmp_path).scan().cards
    assert isinstance(card, SysfsCard)

    def fails(*_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pread", fails)
    sampled = sampled_of(card)
    sampled.round()
    assert sampled.trouble()[0] == state
    assert os.strerror(number) in sampled.trouble()[1]


# --- drivers that cannot be begun -----------------------------------------------------------------


class NoSmi:
    """A binding whose library answers every call with one error."""

    class AmdSmiException(Exception):
        err_code = 10

    def amdsmi_init(self) -> None:
        raise self.AmdSmiException("AMDSMI_STATUS_NO_PERM - Permission Denied")


class NoSysman:
    """A binding whose driver refuses to initialise, with this code."""

    ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS = 0x70010000
    ZE_RESULT_ERROR_UNSUPPORTED_VERSION = 0x78000002
    ZE_RESULT_ERROR_UNINITIALIZED = 0x78000001

    def __init__(self, code: int) -> None:
        self.code = code

    def zesInit(self, flags: int) -> int:
        return self.code


def test_amd_smi_that_refuses_is_a_sentence(tmp_path: Path) -> None:
    SysfsTree(tmp_path, profiles.node("8xMI300X", seed=3)).write()
    scan = Amd({}, NoSmi(), tmp_path).scan()
    assert len(scan.devices) == 8
    assert "Permission Denied" in scan.missing[0]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0x70010000, "INSUFFICIENT_PERMISSIONS"),
        (0x78000002, "UNSUPPORTED_VERSION"),
        (0x78000001, "UNINITIALIZED"),
    ],
)
def test_sysman_that_cannot_be_begun_is_a_sentence_where_there_is_hardware(
    tmp_path: Path, code: int, words: str
) -> None:
    assert Intel({}, NoSysman(code), tmp_path).scan().missing == ()
    device = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    device.mkdir(parents=True)
    (device / "class").write_text("0x038000\n")
    (device / "vendor").write_text("0x8086\n")
    (said,) = Intel({}, NoSysman(code), tmp_path).scan().missing
    assert said.startswith("Intel GPUs: zesInit: ") and words in said


def test_an_opencl_lister_that_may_not_be_run_is_a_sentence() -> None:
    def refused() -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", "stoker-opencl-list")

    scan = OpenCL({}, refused).scan()
    assert scan.devices == ()
    assert "Permission denied" in scan.missing[0]
