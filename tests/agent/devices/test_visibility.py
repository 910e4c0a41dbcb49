# SPDX-License-Identifier: Apache-2.0
"""Variables of jobs with and without devices."""

from __future__ import annotations

from stoker.agent.devices import visibility
from stoker.scheduler.nouns import DeviceInfo


def gpu(uuid: str) -> DeviceInfo:
    return DeviceInfo(uuid, "nvidia", "H200", visible={"CUDA_VISIBLE_DEVICES": uuid})


def test_granted_gpus_are_one_list_and_every_other_vendor_is_hidden() -> None:
    seen = visibility.environment([gpu("GPU-1"), gpu("GPU-0")])
    assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-0"
    assert seen["ROCR_VISIBLE_DEVICES"] == ""
    assert seen["POCL_DEVICES"] == ""


def test_without_a_grant_no_gpu_is_visible_and_the_cpu_is_left_alone() -> None:
    seen = visibility.environment([])
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    assert "POCL_DEVICES" not in seen


def test_a_granted_pocl_device_is_not_hidden() -> None:
    seen = visibility.environment([DeviceInfo("pocl-0", "pocl", "cpu", kind="cpu")])
    assert "POCL_DEVICES" not in seen
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
