# SPDX-License-Identifier: Apache-2.0
"""The list of a node's devices: stable indices, devices that go, holders that come and leave."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from stoker.agent.devices import registry as registry_module
from stoker.agent.devices import vendor_scans
from stoker.agent.devices.card import Silent
from stoker.agent.devices.host.processes import IsOurs
from stoker.agent.devices.registry import GONE, Devices
from stoker.agent.devices.vendor import VENDORS, Scan, Vendor
from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import DEVICES_PER_NODE_MAX, DeviceInfo


class Fake(Vendor):
    name = "fake"

    def __init__(self, *ids: str) -> None:
        self.ids = ids
        self.held: dict[str, str] = {}

    def scan(self) -> Scan:
        return Scan(
            tuple(DeviceInfo(id, "fake", "m") for id in self.ids),
            cards=tuple(Silent(id, "it is a fake") for id in self.ids),
        )

    def holders(self, is_ours: IsOurs) -> Mapping[str, str]:
        return self.held


def devices(tmp_path: Path, *vendors: Vendor, boot: str = "boot-a") -> Devices:
    return Devices(vendors, lambda _: False, tmp_path / "devices.json", boot)


def ids(found: Devices) -> list[str]:
    return [device.id for device in found.known]


def test_every_vendor_is_registered() -> None:
    names = {make.name for make in VENDORS if isinstance(make, type)}
    assert names == {"nvidia", "amd", "intel", "pocl", "declared"}


def test_an_index_means_the_same_device_until_the_next_boot(tmp_path: Path) -> None:
    first = devices(tmp_path, Fake("b", "a"))
    assert first.scan()
    assert ids(first) == ["b", "a"]
    again = devices(tmp_path, Fake("a", "c"))
    again.scan()
    assert ids(again) == ["b", "a", "c"]
    assert [device.unavailable for device in again.known] == [GONE, "", ""]
    rebooted = devices(tmp_path, Fake("a", "c"), boot="boot-b")
    rebooted.scan()
    assert ids(rebooted) == ["a", "c"]


def test_a_device_that_disappears_keeps_what_was_known_of_it(tmp_path: Path) -> None:
    fake = Fake("a")
    found = devices(tmp_path, fake)
    found.scan()
    fake.ids = ()
    assert found.scan()
    (gone,) = found.known
    assert (gone.model, gone.unavailable, gone.gone) == ("m", GONE, True)
    # Health's verdict stays with a card that is gone and comes back.
    assert found.judge({"a": "fell off the bus"}, {})
    (sick,) = found.known
    assert (sick.unavailable, sick.gone) == ("fell off the bus", False)
    assert found.judge({}, {})
    fake.ids = ("a",)
    assert found.scan()
    assert not found.known[0].gone


def test_what_one_vendors_binding_raises_takes_nobody_elses_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, odd = Fake("a"), Fake("b")
    found = devices(tmp_path, sound, odd)
    found.scan()

    def fails() -> Scan:
        raise UnicodeDecodeError("utf-8", b"", 0, 1, "odd")

    monkeypatch.setattr(odd, "scan", fails)
    assert found.scan()
    assert ids(found) == ["a", "b"]
    assert "fake devices: looking for them failed: UnicodeDecodeError" in found.missing[0]
    monkeypatch.undo()
    assert found.scan() and found.missing == ()


def test_settings_that_cannot_be_used_end_the_scan_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake("a")

    def fails() -> Scan:
        raise BadRequest("no such setting")

    monkeypatch.setattr(fake, "scan", fails)
    with pytest.raises(BadRequest, match="no such setting"):
        devices(tmp_path, fake).scan()


def test_holders_come_and_leave_and_each_is_a_change(tmp_path: Path) -> None:
    fake = Fake("a", "b")
    found = devices(tmp_path, fake)
    found.scan()
    assert not found.check()
    fake.held = {"b": "held by pid 812 (python3)"}
    assert found.check()
    assert found.known[1].unavailable == "held by pid 812 (python3)"
    assert not found.check()
    fake.held = {}
    assert found.check()
    assert found.known[1].unavailable == ""


def test_an_id_found_twice_is_one_device_and_said(tmp_path: Path) -> None:
    found = devices(tmp_path, Fake("a"), Fake("a"))
    found.scan()
    assert ids(found) == ["a"]
    assert "found twice" in found.missing[0]


def test_more_devices_than_a_node_may_have_are_left_out_and_named(tmp_path: Path) -> None:
    found = devices(tmp_path, Fake(*(f"d{n}" for n in range(DEVICES_PER_NODE_MAX + 1))))
    found.scan()
    assert len(found.known) == DEVICES_PER_NODE_MAX
    assert f"d{DEVICES_PER_NODE_MAX}" in found.missing[0]


def test_a_torn_order_file_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "devices.json").write_bytes(b'{"boot_id": "bo')
    found = devices(tmp_path, Fake("a"))
    found.scan()
    assert ids(found) == ["a"]


def test_samples_are_in_the_order_of_the_list(tmp_path: Path) -> None:
    found = devices(tmp_path, Fake("b"), Fake("a"))
    found.scan()
    assert [sample.id for sample in found.sample()] == ["b", "a"]


class Hanging(Fake):
    name = "hanging"

    def __init__(self, *ids: str) -> None:
        super().__init__(*ids)
        self.held = {}
        self.free = threading.Event()

    def scan(self) -> Scan:
        self.free.wait(10)
        return super().scan()


def test_a_driver_that_hangs_is_said_and_taken_in_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendor_scans, "SCAN_S", 0.1)
    slow = Hanging("x")
    found = devices(tmp_path, Fake("a"), slow)
    found.scan()
    assert ids(found) == ["a"]
    assert found.missing == ("hanging devices: the driver does not answer",)
    slow.free.set()
    end = time.monotonic() + 60
    while ids(found) != ["a", "x"] and time.monotonic() < end:
        found.scan()
    assert (ids(found), found.missing) == (["a", "x"], ())


def test_a_card_in_trouble_is_not_available_and_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = devices(tmp_path, Fake("a", "b"))
    found.scan()
    trouble: dict[str, tuple[str, str]] = {"a": ("lost", "GPU is lost")}
    monkeypatch.setattr(found.samplers, "troubles", lambda: trouble)
    assert found.check()
    assert [device.unavailable for device in found.known] == ["GPU is lost", ""]
    monkeypatch.setattr(registry_module, "AGAIN_S", 0.0)
    scans: list[set[str]] = []
    monkeypatch.setattr(found, "scan", lambda only: bool(scans.append(only)))
    found.check()
    assert scans == [{"a"}]


def test_a_card_in_trouble_that_is_not_found_stays_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver is being reloaded, so the trouble of its card tells more than that it is gone."""
    fake = Fake("a", "b")
    found = devices(tmp_path, fake)
    found.scan()
    monkeypatch.setattr(found.samplers, "troubles", lambda: {"a": ("mismatch", "versions differ")})
    fake.ids = ()
    found.scan()
    assert [device.unavailable for device in found.known] == ["versions differ", GONE]
    monkeypatch.setattr(found.samplers, "troubles", dict)
    fake.ids = ("a", "b")
    monkeypatch.setattr(registry_module, "GONE_AGAIN_S", 0.0)
    assert found.check()
    assert [device.unavailable for device in found.known] == ["", ""]


class Parts(Fake):
    """A card with a partition, which another scan may find cut anew."""

    again: frozenset[str] = frozenset()

    def scan(self) -> Scan:
        self.again = frozenset()
        found = super().scan()
        return Scan(found.devices, cards=found.cards, parents=dict.fromkeys(self.ids[1:], "card"))

    def recut(self) -> frozenset[str]:
        return self.again


def test_what_is_wrong_with_a_card_is_wrong_with_its_partitions(tmp_path: Path) -> None:
    found = devices(tmp_path, Parts("card", "part"), Fake("other"))
    found.scan()
    found.judge({"card": "too hot"}, {})
    assert [device.unavailable for device in found.known] == ["too hot", "too hot", ""]
    found.judge({}, {"card": "warm"})
    assert [device.warning for device in found.known] == ["warm", "warm", ""]
    found.judge({"part": "its own"}, {})
    assert [device.unavailable for device in found.known] == ["", "its own", ""]


def test_a_card_that_was_cut_anew_is_scanned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts("card", "one")
    found = devices(tmp_path, parts)
    found.scan()
    parts.ids, parts.again = ("card", "two"), frozenset({"card"})
    assert not found.check(), "it is too soon after the last scan"
    monkeypatch.setattr(registry_module, "AGAIN_S", -1.0)
    assert found.check()
    assert [device.gone for device in found.known] == [False, True, False]
