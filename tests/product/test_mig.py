# SPDX-License-Identifier: Apache-2.0
"""MIG instances of simulated cards (SIM) as devices of a live node: asked for, granted, used."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.native import _sim, paths
from stoker.native.errors import StokerError
from stoker.probes.simdriver import libraries, profiles

pytestmark = pytest.mark.needs_root

PARTS = 4 * 7 + 4 * 4
"""The instances of the profile: four cards in seven, four in four."""


class Cut:
    """A live node and its simulated cards, all of them in MIG mode."""

    def __init__(self, node: LiveNode, sim: _sim.Node) -> None:
        self.node, self.sim = node, sim

    def rows(self) -> dict[str, Any]:
        """The rows of `stoker devices -o json` by id; none while the node does not answer."""
        try:
            shown = self.node.json("devices")["devices"]
        except StokerError:
            return {}
        assert isinstance(shown, list)
        return {row["id"]: row for row in shown if row["kind"] == "gpu"}

    def parts(self) -> dict[str, Any]:
        return {id: row for id, row in self.rows().items() if id.startswith("MIG-")}

    def truth(self) -> dict[str, dict[str, Any]]:
        """Every instance by the cards themselves."""
        cards = [self.sim.truth(card) for card in range(8)]
        return {part["uuid"]: part for card in cards for part in card["partitions"]}


@pytest.fixture(scope="module")
def cut(public_folder: Path) -> Iterator[Cut]:
    folder = public_folder / "cut"
    sim = profiles.node("8xA100-MIG", folder, seed=11)
    sim.set_open(True)
    environment = libraries.environment(folder, [1], {})
    with live_node("--root-jobs-as", "root", device_kind="gpu", **environment) as node:
        made = Cut(node, sim)
        wait_until(lambda: len(made.parts()) == PARTS, "all instances are devices", 60)
        yield made


def test_every_instance_is_a_device_and_its_card_gets_no_jobs(cut: Cut) -> None:
    rows, truth = cut.rows(), cut.truth()
    assert cut.parts().keys() == truth.keys()
    for id, part in truth.items():
        row = rows[id]
        assert (row["profile"], row["sim"]) == (part["profile"], True)
        assert row["memory_bytes"] == part["memory_bytes"]
        assert row["arch"] == "ampere" and not row["unavailable"]
        assert row["fields"]["units"]["value"] == part["units"]
        assert "see GPU-" in row["fields"]["power_w"]["absent"]
    whole = [row for id, row in rows.items() if id.startswith("GPU-")]
    assert len(whole) == 8
    assert all("its instances, which are devices of their own" in r["unavailable"] for r in whole)
    assert all(row["fields"]["power_w"]["value"] > 0 for row in whole)


def test_a_job_asks_for_a_profile_and_sees_its_instance_alone(cut: Cut) -> None:
    words = ("/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    job = cut.node.submit(*words, gpu_milli=1000, profiles=("2g.20gb",), exclusivity="mig")
    view = cut.node.wait(job)
    assert view.state == "succeeded" and view.decision is not None
    (granted,) = view.decision.devices
    assert cut.truth()[granted.id]["profile"] == "2g.20gb"
    assert cut.node.output(job).decode().strip() == granted.id


def test_each_instance_is_for_one_job_alone(cut: Cut) -> None:
    """There are four of this profile, so that a fifth job waits."""
    field: dict[str, Any] = {"profiles": ("3g.40gb",), "exclusivity": "mig", "gpu_milli": 1000}
    jobs = [cut.node.submit("sleep", "600", **field) for _ in range(5)]
    try:
        views = [cut.node.wait(job, "running") for job in jobs[:4]]
        ids = [view.decision.devices[0].id for view in views if view.decision is not None]
        assert len(set(ids)) == 4
        assert cut.node.ask(lambda client: client.get(jobs[4])).state == "pending"
    finally:
        for job in jobs:
            cut.node.stoker("cancel", str(job), check=False)


def test_a_whole_card_cannot_be_had_where_all_are_cut(cut: Cut) -> None:
    words = ("submit", "--gpus", "1", "--exclusivity", "exclusive", "--", "true")
    done = cut.node.stoker(*words, check=False)
    said = (done.stderr + cut.node.stoker("explain", "last").stdout).decode()
    assert "in MIG mode" in said, said


def test_kernels_run_on_the_instance_and_its_time_is_accounted(
    cut: Cut, public_folder: Path
) -> None:
    try:
        paths.library("sim/nvidia/libcupti.so.13")
    except paths.NotBuilt as why:
        pytest.skip(f"{why}: without NVIDIA's headers there is no CUPTI tracer")
    built = public_folder / "cuda_on_mig"
    source = Path(__file__).with_name("cuda.c")
    subprocess.run(["gcc", "-O2", "-o", built, source, "-ldl"], check=True)
    field: dict[str, Any] = {"profiles": ("1g.10gb",), "gpu_milli": 1000, "trace": "full"}
    job = cut.node.submit(str(built), "50", **field)
    view = cut.node.wait(job, trace=True)
    assert view.state == "succeeded" and view.trace is not None, cut.node.output(job, "err")
    assert view.decision is not None
    (device,) = view.trace["devices"]
    assert device["id"] == view.decision.devices[0].id
    assert device["causes"]["kernel_ns"] > 0
    assert sum(device["causes"].values()) == device["window_ns"]
