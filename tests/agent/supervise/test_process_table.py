# SPDX-License-Identifier: Apache-2.0
"""The arguments and environments of a node's processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import confine, own_folder, process_table
from stoker.agent.supervise.processes import ProcessTree


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    made = state_folder.locate(tmp_path / "state")
    state_folder.prepare(made)
    own_folder.load_or_create(made)
    return made


def test_the_table_is_a_tree_in_start_order(where: StateFolder) -> None:
    table = process_table.programs(where, allow_root=False)
    assert tuple(program.spec.name for program in table) == process_table.ORDER
    ProcessTree.of(program.spec for program in table)


def test_no_argument_holds_a_secret(where: StateFolder) -> None:
    seeds = [path.read_text().strip() for path in where.keys.iterdir()]
    for program in process_table.programs(where, allow_root=True):
        assert not any(seed in argument for seed in seeds for argument in program.argv)


def test_jobs_as_root_are_allowed_only_on_request(where: StateFolder) -> None:
    spawner = {
        allow: process_table.programs(where, allow_root=allow)[1].argv for allow in (True, False)
    }
    assert set(spawner[True]) - set(spawner[False]) == {"--allow-root"}


def test_broker_and_scheduler_have_no_capabilities(where: StateFolder) -> None:
    table = process_table.programs(where, allow_root=False)
    assert {p.spec.name for p in table if p.capless} == {"nats-server", "scheduler"}


def test_a_node_that_others_may_join_has_a_registrar_without_capabilities(
    where: StateFolder,
) -> None:
    cluster = msgspec.structs.replace(state_folder.load(where), address="127.0.0.2")
    table = process_table.programs(where, cluster, allow_root=False)
    assert {p.spec.name for p in table} == {*process_table.ORDER, "registrar"}
    (registrar,) = (p for p in table if p.spec.name == "registrar")
    assert registrar.capless and registrar.spec.after == ("nats-server",)
    ProcessTree.of(program.spec for program in table)


def test_a_node_that_joined_runs_jobs_and_nothing_else(where: StateFolder) -> None:
    cluster = ClusterFile("c", "second", "", brokers=("tls://10.0.0.5:1",), joined=True)
    table = process_table.programs(where, cluster, allow_root=False)
    assert [p.spec.name for p in table] == ["spawner", "watchdog", "agent"]
    ProcessTree.of(program.spec for program in table)
    watchdogs = [process_table.programs(where, each, allow_root=False) for each in (None, cluster)]
    kills = [
        "--fence-kill-s" in next(p.argv for p in t if p.spec.name == "watchdog") for t in watchdogs
    ]
    assert kills == [False, True]


def test_the_environment_is_a_list_of_names(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    monkeypatch.setenv("POCL_DEVICES", "pthread")
    found = process_table.environment(where)
    assert found["STOKER_STATE"] == str(where.root)
    assert found["POCL_DEVICES"] == "pthread"
    assert not {"AWS_SECRET_ACCESS_KEY", "NOTIFY_SOCKET"} & set(found)


UNUSED_TABLE = """
import ctypes

libc = ctypes.CDLL(None)
libc.malloc.restype = libc.calloc.restype = ctypes.c_void_p


def anonymous_kib():
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


before = anonymous_kib()
for size in (16 << 20, 8 << 20):
    once = libc.malloc(ctypes.c_size_t(size))
    ctypes.memset(once, 1, size)
    libc.free(ctypes.c_void_p(once))
table = libc.calloc(ctypes.c_size_t(1), ctypes.c_size_t(7 << 20))
print(anonymous_kib() - before)
"""


def test_a_table_that_is_not_used_takes_no_memory(where: StateFolder) -> None:
    command = [sys.executable, "-c", UNUSED_TABLE]
    variables = {**os.environ, **process_table.environment(where)}
    told = subprocess.run(command, env=variables, capture_output=True, check=True, text=True)
    assert int(told.stdout) < 1024


def test_files_of_compilers_are_the_nodes_own(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system service has no home, so caches would be below /tmp, where anybody writes."""
    for name in ("HOME", "POCL_CACHE_DIR", "CUDA_CACHE_PATH"):
        monkeypatch.delenv(name, raising=False)
    found = process_table.environment(where)
    assert found["POCL_CACHE_DIR"] == str(where.agent / "cache" / "pocl")
    assert found["CUDA_CACHE_PATH"] == str(where.agent / "cache" / "cuda")
    monkeypatch.setenv("POCL_CACHE_DIR", "/scratch/pocl")
    assert process_table.environment(where)["POCL_CACHE_DIR"] == "/scratch/pocl"


def test_a_library_is_preloaded_on_simulated_cards_alone(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STOKER_SIM_NODE", raising=False)
    monkeypatch.setenv("LD_PRELOAD", "/x.so")
    monkeypatch.setenv("ZES_ENABLE_SYSMAN", "1")
    assert "LD_PRELOAD" not in process_table.environment(where)
    monkeypatch.setenv("STOKER_SIM_NODE", "/node")
    found = process_table.environment(where)
    assert (found["LD_PRELOAD"], found["ZES_ENABLE_SYSMAN"]) == ("/x.so", "1")


@pytest.mark.needs_root
def test_what_a_capless_root_can_reach(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root there is nothing to keep")
    program = tmp_path / "program"
    program.touch(mode=0o700)
    assert confine.needed_to_read([program]) == frozenset()
    os.chown(program, 65534, 65534)
    assert confine.needed_to_read([program]) == {confine.CAP_DAC_READ_SEARCH}
    program.chmod(0o755)
    assert confine.needed_to_read([program]) == frozenset()
    os.chown(tmp_path, 65534, 65534)
    assert confine.needed_to_read([program]) == {confine.CAP_DAC_READ_SEARCH}
