# SPDX-License-Identifier: Apache-2.0
"""The demo of a cluster as `make cluster-demo` runs it: its screen, its checks, no leftovers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from fakes import views
from product_node import STOKER

from stoker.mesh.wire import schema
from stoker.native.errors import Denied, NotSupported
from stoker.tui.commands import demo_commands
from stoker.tui.demo import cluster_demo, network_hosts
from stoker.tui.demo.cluster_demo import ClusterStory

ROOT = Path(__file__).parents[3]


def networks() -> set[str]:
    folder = Path("/run/netns")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def own_folders() -> set[str]:
    return {str(path) for path in Path("/tmp").glob("stoker-cluster-*")}


@pytest.mark.soak
@pytest.mark.needs_root
@pytest.mark.slow
def test_a_job_survives_its_host_and_the_demo_leaves_nothing() -> None:
    """The recipe of `make cluster-demo` is one command."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    recipe = (ROOT / "Makefile").read_text()
    assert re.search(r"^cluster-demo: setup .*\n\t@\$\(RUN\)stoker demo --cluster$", recipe, re.M)
    before = networks(), own_folders(), Path("/proc/self/net/route").read_text()
    done = subprocess.run(
        [STOKER, "demo", "--cluster"],
        capture_output=True, cwd="/", timeout=400, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    assert done.stdout.count("\n") <= 40, "one screen"
    for part in ("joined by token over TLS 1.3", "is evicted: silent for", "dies: its"):
        assert part in done.stdout
    dead = re.search(r"(\w+), whose scheduler leads", done.stdout)
    place = re.search(r"attempt 2 runs on (\w+)", done.stdout)
    assert dead and place and dead[1] != place[1]
    assert re.search(r"(\w+) leads: it places job", done.stdout)
    assert "runs on in its first attempt" in done.stdout and "must stay" in done.stdout
    counts = re.findall(r"launched (\d+), traced (\d+)", done.stdout)
    assert len(counts) == 3 and all(said == seen != "0" for said, seen in counts)
    after = networks(), own_folders(), Path("/proc/self/net/route").read_text()
    assert after == before


def test_its_story_is_one_json_object_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    story = noted(view("succeeded", 2, "third"))
    story.moments.sort()
    monkeypatch.setattr(cluster_demo, "run", lambda: story)
    done = CliRunner().invoke(demo_commands.demo_command, ["--cluster", "--json"])
    told = json.loads(done.output)
    assert done.exit_code == 0 and told["failures"] == []
    assert told["figures"] == {"evicted_s": 10 / 1e9, "runs_elsewhere_s": 30 / 1e9}
    times = [each["t_ns"] for each in told["moments"]]
    assert times == sorted(times) and len(times) == 6


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that is not in a network of its own yet, and could not get there."""
    monkeypatch.delenv("STOKER_DEMO_NETWORK", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    return monkeypatch


def test_without_root_it_says_what_it_needs(outside: pytest.MonkeyPatch) -> None:
    outside.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Denied, match="which root alone can make") as refused:
        cluster_demo.run()
    hint = refused.value.hint or ""
    assert hint.startswith("run it as root: sudo stoker")


def test_a_missing_tool_is_named_with_its_package(outside: pytest.MonkeyPatch) -> None:
    outside.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(NotSupported, match="there is no `ip` here") as refused:
        network_hosts.enter()
    assert "iproute2" in refused.value.hint


def view(state: str, attempt: int, node: str, *, before: str = "second") -> schema.JobView:
    """A job with one earlier attempt."""
    decision = schema.DecisionView(
        id=1, node=node, devices=(), reason="", latency_ns=0, observations=()
    )
    times = schema.Times(submitted_ns=1, placed_ns=30, started_ns=40, ended_ns=50)
    first = schema.AttemptView(
        attempt=1, state="lost", reason="", node=before, placed_ns=2, started_ns=3, ended_ns=20,
        exit_code=None, signal=None,
    )  # fmt: skip
    made = msgspec.structs.replace(
        views.job(1, state, decision=decision), attempt=attempt, times=times
    )
    return msgspec.structs.replace(made, attempts=(first,) if attempt > 1 else ())


def noted(found: schema.JobView) -> ClusterStory:
    story = ClusterStory(killed_ns=10)
    cluster_demo._note_attempts(found, "second", "silent", story)
    return story


def test_the_demo_fails_unless_the_job_ran_again_on_another_host() -> None:
    good = noted(view("succeeded", 2, "third"))
    assert good.failures == []
    assert good.figures == {"evicted_s": 10 / 1e9, "runs_elsewhere_s": 30 / 1e9}
    for bad in (
        view("failed", 2, "third"),
        view("succeeded", 2, "second"),
        view("succeeded", 3, "third"),
        view("succeeded", 2, "third", before="third"),
        view("succeeded", 1, "second"),
    ):
        assert len(noted(bad).failures) == 1
