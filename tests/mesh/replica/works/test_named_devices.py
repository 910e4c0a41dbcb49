# SPDX-License-Identifier: Apache-2.0
"""The names of devices and labels in requests: which device is meant, and the nearest that is."""

from __future__ import annotations

import pytest

from stoker.mesh.replica.works.named_devices import check_labels, named_devices
from stoker.native.errors import BadRequest
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import DeviceInfo, NodeReport


def report(node: str, *ids: str) -> NodeReport:
    devices = tuple(DeviceInfo(id, "nvidia", "H200") for id in ids)
    return NodeReport(node, "boot", 1, 8000, 1 << 30, devices)


REPORTS = [report("n1", "GPU-a1", "GPU-a2"), report("n2", "GPU-b1", "GPU-b2", "GPU-b3")]
REPORTS.append(report("n3", "GPU-c0ffee00-1", "12e0c8b2-bad6-40fb"))


@pytest.mark.parametrize(
    ("name", "node", "place"),
    [
        ("0", "", 1),
        ("2", "", 3),
        ("n2:0", "n2", 1),
        ("n1:1", "n1", 2),
        ("GPU-b2", "n2", 2),
        ("gpu-B3", "n2", 3),
        ("n1:GPU-a1", "n1", 1),
        ("gpu-c0f", "n3", 1),
        ("n3:GPU-c", "n3", 1),
        ("12e0c8b2-bad", "n3", 2),
    ],
)
def test_a_name_means_one_device(name: str, node: str, place: int) -> None:
    (found,) = named_devices([name], REPORTS, 2)
    assert (found.value, found.place, found.rank) == (name_id(node) if node else 0, place, 2)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("3", "they are 0 to 2"),
        ("99999999999999999999", "they are 0 to 2"),
        ("GPU-a3", "the nearest is GPU-"),
        ("n1:2", "There are: GPU-a1"),
        ("n2:GPU-a1", "the nearest is GPU-a1"),
        ("\u0663", "There are: GPU-a1"),
        ("n3:12", "There are: GPU-a1"),
        ("n3:", "There are: GPU-a1"),
    ],
)
def test_a_name_that_no_device_has_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        list(named_devices([name], REPORTS, 0))
    assert hint in str(refused.value.hint)


def test_the_beginning_of_several_names_them() -> None:
    with pytest.raises(BadRequest, match="'GPU-b' is the beginning of several") as refused:
        list(named_devices(["GPU-b"], REPORTS, 0))
    assert refused.value.hint == "n2:GPU-b1, n2:GPU-b2, n2:GPU-b3"


def test_without_nodes_there_is_nothing_to_name() -> None:
    with pytest.raises(BadRequest, match="no node has a device"):
        list(named_devices(["0"], [], 0))


def test_a_label_that_no_node_has_is_refused_with_the_nearest() -> None:
    check_labels(["zone=left"], ["zone=left", "zone=right"])
    with pytest.raises(BadRequest) as refused:
        check_labels(["zone=lefd"], ["zone=right", "zone=left"])
    assert refused.value.hint == "the nearest is zone=left"
