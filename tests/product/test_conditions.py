# SPDX-License-Identifier: Apache-2.0
"""Conditions of jobs on their devices, on a live node with cards of three vendors (SIM).

Each test goes from a flag of `stoker run` to the device that the job got, or to the refusal. The
traits of devices come from the unmodified bindings on the simulated drivers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from product_node import STOKER, LiveNode, wait_until

DEVICES = 8
"""The cards of the profile `mixed`."""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    root = Path(tempfile.mkdtemp(prefix="conditions-"))
    live = LiveNode(root / "state", "gpu")
    sim = [str(STOKER), "sim", "driver", "--profile", "mixed", "--"]
    with (root / "log").open("wb") as log:
        up = subprocess.Popen(
            [*sim, str(STOKER), "up", "--foreground"],
            env={**live.environment, "TMPDIR": str(root)}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_until(lambda: len(cards(live)) == DEVICES, "all cards are there", 60)
        yield live
    finally:
        live.stoker("down", check=False)
        up.terminate()
        up.wait(60)
        shutil.rmtree(root, ignore_errors=True)


def cards(node: LiveNode) -> dict[str, dict[str, object]]:
    """The GPUs by id; none while the node does not answer."""
    done = node.stoker("devices", "-o", "json", check=False)
    rows = json.loads(done.stdout)["devices"] if done.returncode == 0 else []
    return {row["id"]: row for row in rows if row["kind"] == "gpu" and not row["unavailable"]}


def got(node: LiveNode, *flags: str) -> dict[str, object]:
    """The one device that a job with these flags ran on."""
    node.stoker("run", "--gpus", "1", *flags, "--", "true")
    decision = node.json("explain", "last")["decision"]
    assert isinstance(decision, dict)
    (device,) = decision["devices"]
    return cards(node)[device["id"]]


def refused(node: LiveNode, *flags: str) -> str:
    done = node.stoker("run", "--gpus", "1", *flags, "--", "true", check=False)
    assert done.returncode != 0
    return done.stderr.decode()


def explained(node: LiveNode) -> str:
    return node.explained("last")


def test_traits_come_from_the_drivers(node: LiveNode) -> None:
    rows = cards(node).values()
    assert {(r["vendor"], r["arch"], r["compute"]) for r in rows} == {
        ("nvidia", "hopper", "9.0"),
        ("nvidia", "ada", "8.9"),
        ("amd", "gfx942", ""),
        ("intel", "", ""),
    }
    assert all(row["driver"] for row in rows)


@pytest.mark.parametrize(
    ("flags", "model"),
    [
        (["--vendor", "amd"], "AMD Instinct MI300X"),
        (["--vendor", "Intel"], "Intel(R) Data Center GPU Max 1550"),
        (["--arch", "gfx942"], "AMD Instinct MI300X"),
        (["--arch", "Ada"], "NVIDIA L40S"),
        (["--arch", "sm_90"], "NVIDIA H200"),
        (["--min-compute", "9.0"], "NVIDIA H200"),
        (["--model", "*L40?"], "NVIDIA L40S"),
        (["--vendor", "nvidia", "--device-mem", "100G"], "NVIDIA H200"),
        (["--driver", ">=500", "--device-mem", "100G"], "NVIDIA H200"),
        (["--driver", "6.12"], "AMD Instinct MI300X"),
        (["--driver", "<6"], "Intel(R) Data Center GPU Max 1550"),
        (["--prefer", "arch=ada"], "NVIDIA L40S"),
        (["--prefer", "driver>=6", "--prefer", "vendor=amd"], "AMD Instinct MI300X"),
    ],
    ids=" ".join,
)
def test_a_condition_decides_the_device(node: LiveNode, flags: list[str], model: str) -> None:
    assert got(node, *flags)["model"] == model


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--driver", ">=600"], "no device has driver >= 600; the highest is 580.95.05"),
        (["--min-compute", "9.5"], "compute capability >= 9.5; the highest is 9.0"),
        (["--device-mem", "300G"], "no device has device memory >= 300 GiB; the highest is 192"),
        (["--arch", "gfx1100"], "architecture 'gfx1100'. There are: ada, gfx942, hopper"),
        (["--arch", "ada", "--device-mem", "100G"], "no device meets all of them"),
        (["--partition-profile", "1g.10gb"], "no device has partition profile '1g.10gb'"),
        (["--vendor", "nvidai"], "no device has vendor 'nvidai'"),
        (["--driver", ">=600", "--driver", "<500"], "contradict each other"),
        (["--vendor", "amd", "--min-compute", "8.0"], "is of nvidia GPUs, but vendors is amd"),
        (["--driver", "new"], "is no version"),
        (["--min-compute", "8"], "is no compute capability"),
        (["--prefer", "speed"], "is none of vendor=NAME"),
        (["--device-kind", "cpu", "--arch", "gfx942"], "but --device-kind is 'cpu'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_no_device_could_meet_is_refused(node: LiveNode, flags: list[str], said: str) -> None:
    assert said in refused(node, *flags)


def test_a_waiting_job_is_told_which_devices_fail_which_condition(node: LiveNode) -> None:
    holder = node.stoker("submit", "--gpus", "2", "--arch", "hopper", "--", "sleep", "600")
    node.stoker("submit", "--gpus", "1", "--arch", "hopper", "--driver", ">=550", "--", "true")
    try:
        text = explained(node)
        assert "needs 1 free GPU, node" in text
        assert "devices that do not have architecture hopper: 6 of 8" in text
        assert "devices that do not have driver >= 550: 4 of 8" in text
        assert "make it a preference: --prefer" in text
    finally:
        node.stoker("cancel", holder.stdout.decode().strip())
        node.stoker("cancel", "last", check=False)


def test_a_preference_gives_way_and_explain_says_so(node: LiveNode) -> None:
    holder = node.stoker("submit", "--gpus", "2", "--arch", "ada", "--", "sleep", "600")
    try:
        chosen = got(node, "--prefer", "vendor=nvidia", "--prefer", "arch=ada")
        assert chosen["model"] == "NVIDIA H200"
        assert "1 of its 2 preferences are met; not arch=ada" in explained(node)
    finally:
        node.stoker("cancel", holder.stdout.decode().strip())


def test_a_job_never_mixes_vendors_unless_asked(node: LiveNode) -> None:
    either = ["--gpus", "3", "--vendor", "amd", "--vendor", "intel"]
    assert "asks for 3 devices, the largest node has 2" in refused(node, *either)
    node.stoker("run", *either, "--mix-vendors", "--", "true")
