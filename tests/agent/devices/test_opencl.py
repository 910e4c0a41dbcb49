# SPDX-License-Identifier: Apache-2.0
"""OpenCL devices: the real program on PoCL, and programs that fail."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.agent.devices import opencl
from stoker.agent.devices.opencl import NO_SENSOR, OpenCL, list_devices
from stoker.agent.devices.samplers.device_samples import sample
from stoker.agent.devices.samplers.sampler import sampled_of
from stoker.agent.devices.vendor import Vendor
from stoker.native import paths
from stoker.scheduler.nouns import DeviceSample

POCL = '{"id": "pocl-0", "platform": "Portable Computing Language", "name": null, "type": "cpu"}'
CUDA = '{"id": "GPU-1", "platform": "NVIDIA CUDA", "name": "H200", "type": "gpu"}'
OTHER = '{"id": "intel-0", "platform": "Intel(R) OpenCL", "name": "Arc", "type": "gpu"}'


def listing(*devices: str) -> Callable[[], bytes]:
    found = f"[{', '.join(devices)}]".encode()
    return lambda: found


def observed(vendor: Vendor) -> DeviceSample:
    """Sample of the only device."""
    (card,) = vendor.scan().cards
    sampled = sampled_of(card)
    sampled.start()
    return sample(sampled.readings())


def test_pocl_is_the_cpu_and_others_are_named_as_not_managed() -> None:
    scan = OpenCL({}, listing(POCL, CUDA, OTHER)).scan()
    (device,) = scan.devices
    assert (device.id, device.kind, device.vendor, device.nodes) == ("pocl-0", "cpu", "pocl", ())
    (said,) = scan.missing
    assert "Arc" in said


def test_absences_have_reasons() -> None:
    found = OpenCL({}, listing(POCL))
    seen = observed(found)
    assert seen.absent["power_w"] == seen.absent["temperature_c"] == NO_SENSOR
    assert "busy_ratio" in seen.absent


def crash() -> bytes:
    raise subprocess.CalledProcessError(-11, "x", stderr=b"")


def hang() -> bytes:
    raise subprocess.TimeoutExpired("stoker-opencl-list", 20)


@pytest.mark.parametrize("run", [crash, hang, lambda: b"not json\n"])
def test_a_driver_that_fails_is_a_sentence(run: object) -> None:
    scan = OpenCL({}, run).scan()  # type: ignore[arg-type]
    assert scan.devices == ()
    assert scan.missing[0].startswith("OpenCL devices: ")


def test_the_real_lister_finds_pocl() -> None:
    try:
        paths.program("stoker-opencl-list")
    except paths.NotBuilt as error:
        if os.geteuid() == 0:
            raise
        pytest.skip(str(error))
    scan = OpenCL({}, list_devices).scan()
    assert [device.id for device in scan.devices] == ["pocl-0"]
    assert scan.devices[0].model
    assert scan.devices[0].memory_bytes


LISTER = """#!/bin/sh
printf '%s %s' "$(stat -c '%a %u' "$POCL_CACHE_DIR")" "$POCL_CACHE_DIR"
"""


def test_the_lister_keeps_its_files_where_nobody_else_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a home folder PoCL takes /tmp/pocl, which may be another user's link."""
    lister = tmp_path / "lister"
    lister.write_text(LISTER)
    lister.chmod(0o755)
    monkeypatch.setattr(opencl.paths, "program", lambda name: lister)
    for name in ("HOME", "POCL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    mode, uid, folder = list_devices().decode().split(" ", 2)
    assert (mode, int(uid)) == ("700", os.geteuid())
    assert not Path(folder).exists()  # nothing of it is needed again
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    assert list_devices().decode().endswith(f" {tmp_path}")
