# SPDX-License-Identifier: Apache-2.0
"""The command line on a whole node: a run through restarts, and the demo from end to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from product_node import wait_until

from stoker.mesh.connection import context
from stoker.tui.demo import private_node
from stoker.tui.render import report

WRITER = """
i=0
until [ -e enough ]; do
    echo "line $i"; echo "note $i" >&2
    i=$((i+1)); [ $((i % 15)) = 0 ] && sleep 0.1
done
echo $i
exit 7
"""
"""A program that writes until it is told that it is enough, and then how much it was."""
GROWS = 400
"""The bytes of output that must come before processes are killed, and after that."""


@pytest.fixture(scope="module")
def node() -> Iterator[private_node.PrivateNode]:
    with private_node.running() as running:
        yield running
    assert running.failures == []


def stoker(
    node: private_node.PrivateNode,
    *words: str,
    out: int | IO[bytes] = subprocess.PIPE,
    err: int | IO[bytes] = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "stoker", *words],
        cwd=node.work,
        env=os.environ | {"STOKER_STATE": str(node.state)},
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
    )


def pid_of(node: private_node.PrivateNode, name: str) -> int:
    """Return the pid of one process of the node; 0 while it is not there."""
    pids = next(p for p in context.run_folders(node.state) if p.exists()) / "pids.json"
    return int(json.loads(pids.read_bytes())["processes"].get(name, {}).get("pid", 0))


def kill(node: private_node.PrivateNode, name: str) -> None:
    """SIGKILL one process of the node; return once its supervisor has started it again."""
    killed = pid_of(node, name)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: pid_of(node, name) not in (0, killed), f"{name} runs again")


def test_a_run_loses_and_repeats_no_byte_through_restarts(
    node: private_node.PrivateNode, tmp_path: Path
) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as to_out, err.open("wb") as to_err:
        running = stoker(node, "run", "--", "sh", "-c", WRITER, out=to_out, err=to_err)
        for names in ((), ("scheduler", "nats-server"), ("agent", "scheduler")):
            for name in names:
                kill(node, name)
            grown = out.stat().st_size + GROWS
            wait_until(lambda at=grown: out.stat().st_size > at, "output goes on")
        (node.work / "enough").touch()
        assert running.wait(120) == 7, err.read_bytes()[-2000:]
    *lines, count = out.read_bytes().splitlines()
    assert lines == [b"line %d" % i for i in range(int(count))]
    notes = [line for line in err.read_bytes().splitlines() if not line.startswith(b"stoker: ")]
    assert notes == [b"note %d" % i for i in range(int(count))]


def offered(node: private_node.PrivateNode, *words: str) -> list[str]:
    """Return the words that bash is offered at TAB, the last of `words` being begun."""
    done = subprocess.run(
        [Path(sys.executable).with_name("stoker")],
        env=os.environ
        | {
            "STOKER_STATE": str(node.state),
            "_STOKER_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("stoker", *words)),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def offered_with(word: str, node: private_node.PrivateNode, *words: str) -> list[str]:
    """Press TAB until this word is offered, or with "" any: a busy node may answer too late."""
    found: list[str] = []

    def comes() -> bool:
        found[:] = offered(node, *words)
        return word in found if word else any(found)

    wait_until(comes, f"{word or 'anything'} is offered")
    return found


def test_a_shell_is_offered_what_is_there(node: private_node.PrivateNode) -> None:
    for name in ("ended", "goes-on"):
        program = ("true",) if name == "ended" else ("sleep", "600")
        done = stoker(node, "submit", "--name", name, "--", *program)
        out, err = done.communicate(timeout=60)
        assert done.returncode == 0, err
        number = out.split()[-1].decode()
    assert stoker(node, "wait", "ended").wait(60) == 0
    live = offered_with(number, node, "cancel", "")
    assert {"goes-on", "last"} <= set(live) and "ended" not in live
    assert offered_with("ended", node, "logs", "en") == ["ended"]
    offered_with(f"j{number}", node, "explain", "j")
    (name,) = offered_with("", node, "node", "show", "")
    assert name
    offered_with("default", node, "queue", "rm", "")
    offered_with("", node, "metrics", "")
    assert stoker(node, "cancel", "goes-on").wait(60) == 0


@pytest.mark.parametrize("words", [("jobs",), ("submit", "true")])
def test_an_answered_command_has_loaded_nothing_for_what_others_do(
    node: private_node.PrivateNode, words: tuple[str, ...]
) -> None:
    """The whole way, with connection, reply and output; `stoker bench cli` has the figures."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "stoker", *words],
        env=os.environ | {"STOKER_STATE": str(node.state)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert done.stdout
    assert {"ssl", "nacl.signing", "stoker.mesh.client.client"} <= loaded
    others = {f"stoker.tui.calls.{name}" for name in ("rank_output", "wait_notice", "job_waits")}
    others.add("stoker.tui.options.script_options")
    if words == ("jobs",):
        others.add("stoker.tui.options.quantity_parser")
    assert not loaded & {"encodings.idna", "unicodedata", "nats", "random", "email", *others}


def test_input_and_output_are_the_same_bytes(
    node: private_node.PrivateNode, tmp_path: Path
) -> None:
    data = os.urandom(1_000_000)
    (tmp_path / "in").write_bytes(data)
    out, err = stoker(node, "run", "--stdin", str(tmp_path / "in"), "--", "cat").communicate()
    assert out == data, err


def test_more_devices_than_there_are_change_nothing(node: private_node.PrivateNode) -> None:
    before = stoker(node, "jobs", "--all", "-o", "name").communicate()[0]
    refused = stoker(node, "run", "--gpus", "9000", "--", "true")
    assert refused.communicate()[1].count(b"\n") == 1
    assert refused.returncode == 2
    assert stoker(node, "jobs", "--all", "-o", "name").communicate()[0] == before


def test_one_key_is_one_job(node: private_node.PrivateNode) -> None:
    command = ("submit", "--idempotency-key", "once", "--", "true")
    first, second = (stoker(node, *command).communicate()[0] for _ in range(2))
    assert first == second != b""


def test_the_bench_says_what_a_start_takes(node: private_node.PrivateNode) -> None:
    benched = stoker(node, "bench", "submit", "--json", "--jobs", "10", "--state", str(node.state))
    out, err = benched.communicate(timeout=120)
    assert benched.returncode == 0, err
    shown = json.loads(out)
    assert {row["gpu_milli"] for row in shown["rows"]} == {0, 1}
    for row in (shown, *shown["rows"]):
        assert 0 < row["start_p50_ms"] <= row["start_p99_ms"]
        assert row["ratio"] == row["jobs_per_s"] / row["floor_per_s"] > 0


def test_top_reads_a_real_node(node: private_node.PrivateNode) -> None:
    out, err = stoker(node, "top", "--once").communicate()
    assert b"pocl-0" in out and b"READY" in out.upper(), err


def test_the_demo_is_traced_reported_and_gone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "demo", "--json"],
        cwd=tmp_path,
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    assert shown["state"] == "succeeded" and shown["failures"] == []
    assert {kernel["name"] for kernel in shown["kernels"]} == {"saxpy", "smooth", "norm"}
    for device in shown["trace"]["devices"]:
        assert sum(device["causes"].values()) == device["window_ns"]
    assert shown["decision"]["observations"] == []
    assert any("pocl-0, as --device-kind cpu does" in why for why in shown["missing"])
    assert (tmp_path / shown["perfetto"]).stat().st_size > 10_000
    assert report.render(shown).count("\n") < 60


def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    started = subprocess.Popen(
        # A shell that runs the tests in the background has every child ignore the key.
        ["env", "--default-signal=INT", sys.executable, "-m", "stoker", "demo"],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("stoker-state-*/log/agent.log")) and time.monotonic() < deadline:
        time.sleep(0.05)
    state = next(tmp_path.glob("stoker-state-*"))
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=90)
    assert started.returncode == 130, err
    assert list(private_node.leftovers(state)) == []
    assert list(tmp_path.glob("stoker-*")) == []
