# SPDX-License-Identifier: Apache-2.0
"""A CUDA program traced on a simulated card (SIM): its trace against CUDA's own events.

A node here is what a person starts: `stoker sim driver --profile mixed -- stoker up`. The
program (cuda.c) knows nothing of a simulation; its kernels last as long as their names say, at the
clock that the card has, and its events tell how long that was. So a card with a locked clock is a
slower model, and what jobs measured on both decides where the next one goes.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from product_node import STOKER, LiveNode, wait_until

from stoker.native import _sim, paths
from stoker.native.errors import StokerError

pytestmark = pytest.mark.needs_root

ROUNDS, COPIES, BYTES = 500, 7, 1 << 20
CARD, OTHER = "NVIDIA H200", "NVIDIA L40S"
SLOW_MHZ = 660
"""A third of the highest clock of an H200."""
OF_A_FLOAT = 1e-7
"""CUDA tells the time between events as a float."""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    try:
        paths.library("sim/nvidia/libcupti.so.13")
    except paths.NotBuilt as why:
        pytest.skip(f"{why}: without NVIDIA's headers there is no CUPTI tracer")
    with tempfile.TemporaryDirectory(prefix="stoker-test-", dir="/tmp") as folder:
        root = Path(folder)
        root.chmod(0o711)
        live = LiveNode(root / "state", "gpu")
        argv = [STOKER, "sim", "driver", "--profile", "mixed", "--", STOKER, "up", "--foreground"]
        with (root / "log").open("wb") as log:
            environment = {**live.environment, "TMPDIR": folder}
            process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: has_cards(live), "the cards are found", 60)
            yield live
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            live.stoker("down")


def has_cards(node: LiveNode) -> bool:
    try:
        rows = node.ask(lambda client: client.devices()).devices
    except (StokerError, OSError):
        return False
    return [sum(row.model == model for row in rows) for model in (CARD, OTHER)] == [2, 2]


@pytest.fixture(scope="module")
def program(public_folder: Path) -> str:
    built = public_folder / "cuda"
    source = Path(__file__).with_name("cuda.c")
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", built, source, "-ldl"], check=True)
    return str(built)


def test_a_trace_says_what_the_programs_own_events_say(node: LiveNode, program: str) -> None:
    job = node.submit(program, str(ROUNDS), gpu_milli=1000, models=(CARD,), trace="full")
    view = node.wait(job, trace=True)
    assert view.state == "succeeded", node.output(job, "err").decode()
    assert view.trace is not None, view.trace_absent
    trace: dict[str, Any] = view.trace
    told: dict[str, float] = json.loads(node.output(job))

    kernels = {row["name"]: row for row in trace["kernels"]}
    counts = {name: row["count"] for name, row in kernels.items()}
    assert counts == {"begin_200ms": 2, "saxpy_150us": ROUNDS, "gemm_230us": ROUNDS}
    copies = {row["name"]: (row["count"], row["bytes"]) for row in trace["copies"]}
    assert copies == {"write": (COPIES, COPIES * BYTES), "fill": (1, BYTES), "read": (1, BYTES)}
    assert not any(row["estimate"] for row in (*kernels.values(), *trace["copies"]))
    assert {name: count for name, count in trace["loss"].items() if count} == {}
    for name, ns in told.items():
        assert ns >= ROUNDS * 150e3
        assert kernels[name]["total_ns"] == pytest.approx(ns, rel=OF_A_FLOAT)

    # The streams run beside each other: the card was busy from the first kernel to the last.
    (device,) = trace["devices"]
    assert device["id"].startswith("GPU-") and not device["estimate"]
    longest = max(told.values()) + kernels["begin_200ms"]["p50_ns"]
    assert device["causes"]["kernel_ns"] >= 0.99 * longest
    assert sum(device["causes"].values()) == device["window_ns"]


def test_who_takes_the_tracer_away_is_not_idle(node: LiveNode, program: str) -> None:
    words = f"env -u CUDA_INJECTION64_PATH {program} 5000"
    job = node.submit("/bin/sh", "-c", words, gpu_milli=1000, models=(CARD,))
    view = node.wait(job, trace=True)
    assert view.state == "succeeded", node.output(job, "err").decode()
    assert view.trace is not None and not view.trace["kernels"]
    (device,) = view.trace["devices"]
    assert device["causes"]["not_observed_ns"] == device["window_ns"] == view.device_ns
    assert "charged as held" in view.trace["absent"]["tracer"]


@pytest.fixture
def slow_cards(node: LiveNode) -> Iterator[None]:
    """The cards of the first model run at a third of their clock."""
    (found,) = node.state.root.parent.glob("stoker-sim-*/node")
    sim = _sim.Node.open(str(found))
    names = [sim.truth(card)["model"]["name"] for card in range(sim.describe()["cards"])]
    slow = [card for card, name in enumerate(names) if name == CARD]
    assert len(slow) == 2
    for card in slow:
        sim.lock_clocks(card, SLOW_MHZ, SLOW_MHZ)
    yield
    for card in slow:
        sim.lock_clocks(card, 0, 0)


def explained(node: LiveNode, job: int) -> str:
    """Return the text of `stoker explain` in one line."""
    return node.explained(job)


def test_jobs_go_to_the_model_that_was_faster_for_jobs_of_their_name(
    node: LiveNode, program: str, slow_cards: None
) -> None:
    """The launches of finished jobs decide on the next placement, and explain says so."""

    rows = node.ask(lambda client: client.devices()).devices
    models = {row.id: row.model for row in rows}

    def placed(**words: Any) -> tuple[int, str]:
        words |= {"gpu_milli": 1000, "device_kind": "gpu", "trace": "full", "name": "train"}
        job = node.submit(program, str(ROUNDS), placement="fastest", **words)
        view = node.wait(job)
        assert view.state == "succeeded" and view.decision, node.output(job, "err").decode()
        return job, models[view.decision.devices[0].id]

    first, model = placed(models=(CARD, OTHER))
    assert model == CARD  # nothing is measured, so the first card will do
    assert "no speed of this device's model is measured" in explained(node, first)
    assert placed(models=(OTHER,))[1] == OTHER
    last, model = placed()
    assert model == OTHER
    said = explained(node, last)
    assert "the device model with the best measured speed" in said
    assert "a launch, for jobs named train, from 1 job next best" in said
    found = re.search(r"NVIDIA L40S .* NVIDIA H200 .* a launch, (\S+)x the time, from 1 job", said)
    assert found and 2 < float(found[1]) < 4
