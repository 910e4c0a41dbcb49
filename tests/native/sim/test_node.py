# SPDX-License-Identifier: Apache-2.0
"""A simulated node as a file that processes share, kill each other over, and find damaged."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from fakes.cards.simulated_card import S, card
from fakes.sanitized import ROOT, built, output_of

from stoker.native import _sim
from stoker.native.errors import NotFound, StokerError


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """check.c with the whole of native/sim, assertions and sanitizers on."""
    made = tmp_path_factory.mktemp("sim") / "check"
    rooms = (ROOT / "native/sim/card", ROOT / "native/sim/node")
    sources = [path for room in rooms for path in sorted(room.glob("*.c"))]
    return built(made, [*sources, Path(__file__).with_name("check.c")])


@pytest.mark.parametrize("seed", range(6))
def test_anything_in_any_order_keeps_every_value_a_number(check: Path, seed: int) -> None:
    assert output_of(check, "fuzz", str(seed), "300") == "fuzzed 300\n"


def real(path: Path) -> _sim.Node:
    return _sim.Node.create(str(path), [card()], False, 0)


def test_a_process_killed_inside_the_lock_leaves_the_node_usable(
    check: Path, tmp_path: Path
) -> None:
    node = real(tmp_path / "node")
    before = node.truth(0)["now"]["die_c"]
    for _ in range(3):
        killed = subprocess.run([check, "die", tmp_path / "node", "0"], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert node.sensor(0) is not None
    assert node.truth(0)["now"]["die_c"] == pytest.approx(before + 3, abs=0.5)


def test_a_process_that_dies_before_its_own_waiting_threads_leaves_the_node_usable(
    check: Path, tmp_path: Path
) -> None:
    """The kernel tells one of those that wait, and that one dies as well."""
    node = real(tmp_path / "node")
    argv = [check, "die-waited-for", tmp_path / "node", "3"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as dying:
        assert dying.stdout
        assert dying.stdout.readline() == "held\n"
        assert node.sensor(0) is not None
        assert dying.wait(60) == -signal.SIGKILL


def test_several_processes_at_once_are_all_counted(check: Path, tmp_path: Path) -> None:
    node = real(tmp_path / "node")
    argv = [check, "calls", tmp_path / "node", "700"]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for each in running:
        assert each.communicate(timeout=60)[0] == "called 700\n"
        assert each.returncode == 0
    calls = node.calls()
    assert [calls[f"call{i}"] for i in range(7)] == [(400, 0)] * 7
    assert calls["absent"] == (2800, 2800)
    assert node.describe()["not_supported"] == 2800


def test_another_process_of_the_same_node_sees_the_same(tmp_path: Path) -> None:
    path = str(tmp_path / "node")
    one = _sim.Node.create(path, [card()], True, 5, "plain")
    other = _sim.Node.open(path)
    one.set_load(0, 1.0, 0.0, 0.0)
    other.advance(S)
    assert one.now_ns == S
    assert one.truth(0) == other.truth(0)
    assert other.describe()["profile"] == "plain"
    assert other.describe()["seed"] == 5


def test_the_environment_names_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_sim.VARIABLE, raising=False)
    with pytest.raises(NotFound):
        _sim.Node.open()
    real(tmp_path / "node")
    monkeypatch.setenv(_sim.VARIABLE, str(tmp_path / "node"))
    assert _sim.Node.open().describe()["cards"] == 1


def test_real_time_passes_by_itself_and_is_not_hurried(tmp_path: Path) -> None:
    node = real(tmp_path / "node")
    node.advance(3600 * S)
    started, before = time.monotonic_ns(), node.now_ns
    assert before < 3000 * S
    time.sleep(0.02)
    passed, ended = node.now_ns - before, time.monotonic_ns()
    assert 20_000_000 <= passed <= ended - started


def test_a_node_is_never_made_twice_and_never_half(tmp_path: Path) -> None:
    path = tmp_path / "node"
    real(path)
    with pytest.raises(StokerError, match="EEXIST"):
        real(path)
    assert os.listdir(tmp_path) == ["node"]  # noqa: PTH208
    with pytest.raises(StokerError):
        _sim.Node.create(str(tmp_path / "none"), [card(units=1), card(target_c=99)], True, 0)
    with pytest.raises(StokerError):
        _sim.Node.create(str(tmp_path / "many"), [card()] * 17, True, 0)
    assert os.listdir(tmp_path) == ["node"]  # noqa: PTH208


@pytest.mark.parametrize("damage", ["short", "long", "magic"])
def test_what_is_no_node_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "node"
    real(path)
    whole = path.read_bytes()
    path.write_bytes({"short": whole[:-1], "long": whole + b"x", "magic": b"x" + whole[1:]}[damage])
    with pytest.raises(StokerError, match="EPROTO"):
        _sim.Node.open(str(path))


def test_calls_are_counted_by_name(tmp_path: Path) -> None:
    node = real(tmp_path / "node")
    for _ in range(5):
        node.sensor(0)
    assert node.calls() == {"sensor": (5, 0)}
    assert node.describe()["calls"] == 5


def test_processes_are_bounded_and_give_their_memory_back(tmp_path: Path) -> None:
    node = real(tmp_path / "node")
    free = node.truth(0)["now"]["memory_used"]
    for pid in range(1, 33):
        node.add_process(0, pid, 1000, 0.1, "p")
    with pytest.raises(StokerError, match="ENOSPC"):
        node.add_process(0, 99, 1000, 0.1)
    assert node.truth(0)["now"]["memory_used"] == free + 32_000
    for pid in range(1, 33):
        node.end_process(0, pid)
    assert node.truth(0)["now"]["memory_used"] == free
    node.end_process(0, 5)
    assert node.truth(0)["now"]["memory_used"] == free


def test_another_user_has_a_copy_that_changes_nothing() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "node"
        node = _sim.Node.create(str(path), [card()], True, 0)
        node.set_load(0, 0.75, 0, 0)
        assert path.stat().st_mode & 0o777 == 0o644
        copied, heard = os.pipe()
        child = os.fork()
        if not child:
            os.setuid(65534)
            seen = _sim.Node.open(str(path))
            found = seen.truth(0)["load"]["compute"]
            seen.set_load(0, 0.5, 0, 0)
            seen.advance(S)
            os.write(heard, f"{found} {seen.truth(0)['load']['compute']}".encode())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(copied, 100) == b"0.75 0.5"
        os.close(copied)
        os.close(heard)
        assert node.truth(0)["load"]["compute"] == 0.75
        assert node.now_ns == 0


def test_a_lock_of_another_kind_is_no_node(tmp_path: Path) -> None:
    real(tmp_path / "node")
    with (tmp_path / "node").open("r+b") as file:
        file.seek(24 + 16)  # __kind of pthread_mutex_t, behind three numbers of 64 bits
        file.write(b"\x21")
    with pytest.raises(StokerError):
        _sim.Node.open(str(tmp_path / "node"))
