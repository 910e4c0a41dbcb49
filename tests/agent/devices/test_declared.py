# SPDX-License-Identifier: Apache-2.0
"""Declared devices on character devices made for the test, and processes that have them open."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.devices.declared import Declared
from stoker.agent.devices.host import holders
from stoker.agent.devices.samplers.device_samples import sample
from stoker.agent.devices.samplers.sampler import sampled_of
from stoker.agent.devices.vendor import Vendor
from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import DeviceSample

NULL = (1, 3)
"""Numbers of /dev/null, so that every machine can open a node with them."""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    if os.geteuid():
        pytest.skip("mknod needs root")
    path = tmp_path / "gpu0"
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*NULL))
    return path


@pytest.fixture
def holder(node: Path) -> Iterator[subprocess.Popen[bytes]]:
    held = subprocess.Popen(
        ["/bin/sh", "-c", f'exec 9<"{node}"; echo; read x'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert held.stdout is not None
    held.stdout.readline()
    yield held
    held.communicate(b"\n")


def declared(*paths: object, **more: object) -> Declared:
    table = {"id": "d0", "model": "A card", "nodes": [str(path) for path in paths], **more}
    return Declared({"device": [table]})


def observed(vendor: Vendor) -> DeviceSample:
    """Sample of the only device."""
    (card,) = vendor.scan().cards
    sampled = sampled_of(card)
    sampled.start()
    return sample(sampled.readings())


def test_a_declared_node_is_admitted_by_its_numbers(node: Path) -> None:
    (device,) = declared(node, visible={"XRT": "0"}).scan().devices
    assert (device.id, device.model, device.kind) == ("d0", "A card", "declared")
    assert device.nodes == (NULL,)
    assert device.unavailable == ""
    assert device.visible == {"XRT": "0"}


def test_what_is_no_character_device_is_not_granted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (device,) = declared(tmp_path / "file").scan().devices
    assert device.unavailable.endswith("it is not a character device")
    (device,) = declared(tmp_path / "none").scan().devices
    assert "No such file" in device.unavailable


def test_a_wrong_table_is_refused_by_name() -> None:
    with pytest.raises(BadRequest, match="device"):
        Declared({"device": [{"model": "no id"}]})
    with pytest.raises(BadRequest, match="colour"):
        Declared({"device": [{"id": "a", "colour": "red"}]})


def test_no_sensor_is_said() -> None:
    found = declared()
    seen = observed(found)
    assert seen.power_w is None
    assert seen.absent["power_w"] == "a declared device has no sensor"


def test_a_foreign_process_with_the_node_open_holds_it(
    node: Path, holder: subprocess.Popen[bytes]
) -> None:
    found = declared(node)
    found.scan()
    # Every process has /dev/null open under another path, so only the test's node may count.
    nodes = frozenset([NULL])
    held = holders.scan(nodes, lambda pid: pid != holder.pid, (f"{node.parent}/",))
    assert held.holders == {NULL: f"held by pid {holder.pid} (sh)"}
    assert holders.scan(nodes, lambda pid: True, (f"{node.parent}/",)).holders == {}


def test_a_holder_is_found_through_the_vendor(
    tmp_path: Path, holder: subprocess.Popen[bytes], node: Path
) -> None:
    found = declared(node)
    found.scan()
    assert found.holders(lambda pid: pid != holder.pid) == {"d0": f"held by pid {holder.pid} (sh)"}
