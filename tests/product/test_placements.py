# SPDX-License-Identifier: Apache-2.0
"""The words for where a job goes, on a live node with cards of three vendors (SIM): each option
alone changes which devices a job gets, `stoker explain` names it, and what contradicts itself or
names what is not there gets one line."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from product_node import STOKER, LiveNode, wait_until

CARDS = 8
"""The cards of the profile `mixed`: two MI300X, two Max 1550, two H200, two L40S."""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    root = Path(tempfile.mkdtemp(prefix="placements-"))
    live = LiveNode(root / "state", "gpu")
    sim = [str(STOKER), "sim", "driver", "--profile", "mixed", "--"]
    up = [str(STOKER), "up", "--foreground", "--label", "zone=left", "--label", "cost=7"]
    with (root / "log").open("wb") as log:
        running = subprocess.Popen(
            [*sim, *up], env={**live.environment, "TMPDIR": str(root)}, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: len(devices(live)) == CARDS, "all cards are there", 60)
        yield live
    finally:
        live.stoker("down", check=False)
        running.terminate()
        running.wait(60)
        shutil.rmtree(root, ignore_errors=True)


def devices(node: LiveNode) -> list[dict[str, object]]:
    """The simulated cards in their order; none while the node does not answer."""
    done = node.stoker("devices", "-o", "json", check=False)
    rows = json.loads(done.stdout)["devices"] if done.returncode == 0 else []
    return [row for row in rows if row["kind"] == "gpu" and not row["unavailable"]]


def got(node: LiveNode, *flags: str, gpus: str = "1") -> list[int]:
    """The numbers of the devices on which a job with these flags ran."""
    node.stoker("run", "--gpus", gpus, *flags, "--", "true")
    decision = node.json("explain", "last")["decision"]
    assert isinstance(decision, dict)
    return sorted(device["index"] for device in decision["devices"])


def explained(node: LiveNode) -> str:
    return node.explained("last")


@contextmanager
def held(node: LiveNode, *flags: str) -> Iterator[None]:
    """A job that holds devices while the block runs."""
    job = node.stoker("submit", *flags, "--", "sleep", "600").stdout.decode().strip()
    node.wait(int(job), "running")
    try:
        yield
    finally:
        node.stoker("cancel", job)
        node.wait(int(job))


def numbers(node: LiveNode, model: str) -> list[int]:
    return [i for i, row in enumerate(devices(node)) if model in str(row["model"])]


def test_contiguous_takes_devices_whose_numbers_follow_each_other(node: LiveNode) -> None:
    first, second = numbers(node, "MI300X"), numbers(node, "H200")
    assert got(node, "--placement", "contiguous", "--vendor", "amd", gpus="2") == first
    text = explained(node)
    assert "why: devices with numbers that follow each other" in text
    assert "numbers follow each other, one link" in text
    apart = ["--vendor", "nvidia", "--placement", "contiguous"]
    with held(node, "--gpus", "1", "--device-ids", str(second[1]), "--device-ids-mode", "require"):
        assert got(node, *apart, gpus="2") == numbers(node, "L40S")


@pytest.mark.parametrize(
    ("spelled", "kept"),
    [
        ("leastLoaded", "least-loaded"),
        ("least_loaded", "least-loaded"),
        ("costOptimized", "cost-optimized"),
        ("cost", "cost-optimized"),
        ("pack", "binpack"),
        ("binPack", "binpack"),
        ("random", "random"),
    ],
)
def test_the_spellings_of_other_systems_are_the_same_placements(
    node: LiveNode, spelled: str, kept: str
) -> None:
    job = node.stoker("submit", "--gpus", "1", "--placement", spelled, "--", "true")
    view = node.wait(int(job.stdout))
    assert view.spec.placement == kept


def test_the_cost_of_a_node_comes_from_its_label(node: LiveNode) -> None:
    got(node, "--placement", "costOptimized")
    text = explained(node)
    assert "why: the cheapest node" in text
    assert "cost 7" in text
    listed = node.json("nodes")["nodes"]
    assert isinstance(listed, list)
    assert (listed[0]["cost"], "zone=left" in listed[0]["labels"]) == (7, True)


def test_a_preferred_device_is_taken_while_it_is_free(node: LiveNode) -> None:
    last = numbers(node, "L40S")[1]
    assert got(node) != [last]
    assert got(node, "--device-ids", str(last)) == [last]
    assert "1 of its 1 preferences are met" in explained(node)
    id = str(devices(node)[last]["id"])
    with held(node, "--gpus", "1", "--device-ids", id):
        assert got(node, "--device-ids", id) != [last]
        assert f"0 of its 1 preferences are met; not one of the devices {id}" in explained(node)


def test_a_required_device_is_waited_for(node: LiveNode) -> None:
    name = str(devices(node)[3]["node"])
    flags = ["--device-ids", f"{name}:3", "--device-ids-mode", "require"]
    assert got(node, *flags) == [3]
    with held(node, "--gpus", "1", *flags):
        job = node.stoker("submit", "--gpus", "1", *flags, "--", "true").stdout.decode().strip()
        text = explained(node)
        assert "devices that are not one of those that are named: 7 of 8" in text
        assert "needs 1 free GPU" in text
    assert node.wait(int(job)).state == "succeeded"
    assert got(node, *flags) == [3]


def test_exclusivity_says_how_much_of_a_card_a_job_has(node: LiveNode) -> None:
    flags = ["--vendor", "intel"]
    with held(node, "--gpus", "0.5", "--exclusivity", "shared", *flags):
        (free,) = got(node, "--exclusivity", "exclusive", *flags)
        (part,) = got(node, "--exclusivity", "shared", *flags, gpus="0.5")
        assert part != free


def test_a_preferred_link_decides_and_gives_way(node: LiveNode) -> None:
    nvidia = ["--vendor", "nvidia"]
    linked, unlinked = numbers(node, "H200"), numbers(node, "L40S")
    assert (
        got(node, *nvidia, "--topology", "preferred", "--min-link-gbps", "600", gpus="2") == linked
    )
    text = explained(node)
    assert "share link 1: 900 GB/s between each two" in text
    assert "1 of its 1 preferences are met" in text
    with held(node, "--gpus", "1", "--device-ids", str(linked[0])):
        other = got(node, *nvidia, "--topology", "preferred", gpus="2")
        assert set(other) & set(unlinked)
        text = explained(node)
        assert "0 of its 1 preferences are met; not a link between its devices" in text
        assert "share no link" in text


@pytest.mark.parametrize(
    ("vendor", "model", "gbps"), [("amd", "MI300X", 7 * 2 * 64), ("intel", "Max 1550", 16 * 2 * 26)]
)
def test_links_of_every_vendor_may_be_asked_for_by_their_width(
    node: LiveNode, vendor: str, model: str, gbps: int
) -> None:
    """All links of such a card lead to the other one; `gbps` is their sum by the profile."""
    wanted = ["--topology", "required", "--min-link-gbps"]
    assert got(node, "--vendor", vendor, *wanted, str(gbps), gpus="2") == numbers(node, model)
    assert f"share link 1: {gbps} GB/s between each two" in explained(node)
    more = [*wanted, str(gbps + 1)]
    assert not set(got(node, *more, gpus="2")) & set(numbers(node, model))
    refused = node.stoker(
        "run", "--gpus", "2", "--vendor", vendor, *more, "--", "true", check=False
    )
    assert refused.returncode != 0
    assert b"no device meets all of them" in refused.stderr


def test_a_required_link_holds_for_all_tasks_of_a_gang(node: LiveNode) -> None:
    linked = numbers(node, "H200")
    flags = ["--tasks", "2", "--vendor", "nvidia"]
    with held(node, "--gpus", "1", "--device-ids", str(linked[0])):
        node.stoker("run", "--gpus", "1", *flags, "--", "true")
        job = (
            node.stoker("submit", "--gpus", "1", *flags, "--topology", "required", "--", "true")
            .stdout.decode()
            .strip()
        )
        text = explained(node)
        assert "waits" in text
        assert "devices that do not have a link to another: 2 of 8" in text
    view = node.wait(int(job))
    assert view.state == "succeeded"
    assert sorted(device.index for rank in view.ranks for device in rank.devices) == linked
    assert "share link 1: 900 GB/s between each two" in node.explained(job)


@pytest.mark.parametrize(
    ("gpus", "flags", "said"),
    [
        ("1", "--placement luckiest", "there is no placement 'luckiest'"),
        ("1", "--node-label zone=lefd", "the nearest is zone=left"),
        ("1", "--device-ids 9", "no node has a device with the number 9"),
        ("1", "--device-ids GPU-none", "no device is called 'GPU-none'"),
        ("2", "--device-ids 1", "names 1 devices, but --gpus asks for 2"),
        ("1", "--device-ids 1,1", "names a device twice"),
        ("1", "--device-ids-mode require", "but --device-ids names no device"),
        ("0", "--device-ids 1", "--device-ids speaks of devices, but --gpus is 0"),
        ("0", "--model L40S", "models speaks of devices, but --gpus is 0"),
        ("0.5", "--exclusivity exclusive", "--gpus asks for a part of one device"),
        ("1", "--exclusivity shared", "--gpus asks for whole devices"),
        ("1", "--exclusivity mig", "no device is a partition of a card"),
        ("1", "--exclusivity exclusive --partition-profile 1g.10gb", "profiles names partitions"),
        ("1", "--exclusivity mig --device-kind cpu", "--device-kind is 'cpu'"),
        ("1", "--topology required", "the job has one device"),
        ("0.5", "--topology required", "a part of one device has no link"),
        ("2", "--min-link-gbps 300", "but topology is 'none'"),
        ("2", "--topology preferred --same-link", "only prefers"),
        ("2", "--topology required --min-link-gbps 5000", "the widest has 900 GB/s"),
        ("4", "--topology required", "needs 4 devices that share a link, 2 do"),
    ],
)
def test_what_contradicts_itself_or_is_not_there_gets_one_line(
    node: LiveNode, gpus: str, flags: str, said: str
) -> None:
    done = node.stoker("run", "--gpus", gpus, *flags.split(), "--", "true", check=False)
    assert done.returncode != 0
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
