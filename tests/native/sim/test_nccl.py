# SPDX-License-Identifier: Apache-2.0
"""The simulated libnccl.so.2 (SIM): ranks in processes of their own wait for each other."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fakes.cards.callers import Caller, calling

from stoker.native.paths import library
from stoker.probes.simdriver import profiles

ARGUMENT, USAGE, NOT_READY = 4, 5, 600
NCCL = library("sim/nvidia/libnccl.so.2")

BEGIN = """
import time
cuda, nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
nccl.ncclGetErrorString.restype = ctypes.c_char_p

class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]

def ok(result):
    assert result == 0, result

context, comm = ctypes.c_void_p(), ctypes.c_void_p()
ok(cuda.cuInit(0))
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
ok(cuda.cuCtxSetCurrent(context))

def new_id():
    one = Id()
    ok(nccl.ncclGetUniqueId(ctypes.byref(one)))
    return bytes(one).hex()

def join(hex, ranks, rank):
    id = Id.from_buffer_copy(bytes.fromhex(hex))
    return nccl.ncclCommInitRank(ctypes.byref(comm), ranks, id, rank)

def reduce(count=1):
    return nccl.ncclAllReduce(None, None, ctypes.c_size_t(count), 7, 0, comm, None)

def send(peer):
    return nccl.ncclSend(None, ctypes.c_size_t(1), 7, peer, comm, None)

def receive(peer):
    return nccl.ncclRecv(None, ctypes.c_size_t(1), 7, peer, comm, None)

def wait():
    ok(cuda.cuStreamSynchronize(None))
    return time.monotonic_ns()

def put():
    ok(reduce())
    return time.monotonic_ns()
"""


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[list[Caller]]:
    """Three processes on one simulated node, in one communicator."""
    with ExitStack() as stack:
        path = tmp_path / "node"
        profiles.node("8xH200", path, virtual=False, seed=3)
        found = str(NCCL.parent)
        callers = [stack.enter_context(calling(path, LD_LIBRARY_PATH=found)) for _ in range(3)]
        for caller in callers:
            caller.do(BEGIN)
        id = callers[0].ask("new_id()")
        assert together(callers, [f"join('{id}', 3, {rank})" for rank in range(3)]) == [0, 0, 0]
        assert not Path("/dev/shm", bytes.fromhex(id).split(b"\0")[0].decode()[1:]).exists()
        yield callers


def together(callers: list[Caller], expressions: list[str]) -> list[Any]:
    """Return the values of the expressions, which all evaluate at once."""
    said: list[Any] = [None] * len(callers)

    def ask(at: int) -> None:
        said[at] = callers[at].ask(expressions[at])

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(callers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def test_a_device_waits_for_the_rank_that_puts_its_operation_last(ranks: list[Caller]) -> None:
    for caller in ranks[:2]:
        caller.ask("put()")
        assert caller.ask("cuda.cuStreamQuery(None)") == NOT_READY
    done: list[int] = []
    waiting = threading.Thread(target=lambda: done.append(ranks[0].ask("wait()")))
    waiting.start()
    put_ns = ranks[2].ask("put()")
    waiting.join()
    assert done[0] >= put_ns
    assert ranks[1].ask("wait()") >= put_ns


def test_operations_are_of_one_order_and_may_be_ahead(ranks: list[Caller]) -> None:
    for caller in ranks[:2]:
        for _ in range(20):
            caller.ask("put()")
    for left in range(20):
        assert ranks[0].ask("cuda.cuStreamQuery(None)") == NOT_READY, left
        ranks[2].ask("put()")
    assert all(at > 0 for at in together(ranks, ["wait()"] * 3))


def test_an_event_behind_an_operation_waits_for_it(ranks: list[Caller]) -> None:
    ranks[0].do("event = ctypes.c_void_p(); ok(cuda.cuEventCreate(ctypes.byref(event), 0))")
    ranks[0].do("ok(reduce()); ok(cuda.cuEventRecord(event, None))")
    assert ranks[0].ask("cuda.cuEventQuery(event)") == NOT_READY
    for caller in ranks[1:]:
        caller.ask("put()")
    assert ranks[0].ask("cuda.cuEventSynchronize(event)") == 0
    assert ranks[0].ask("cuda.cuEventQuery(event)") == 0


def test_messages_of_a_group_pass_each_other(ranks: list[Caller]) -> None:
    for rank, peer in ((0, 1), (1, 0)):
        ranks[rank].do("ok(nccl.ncclGroupStart())")
        ranks[rank].do(f"ok(send({peer})); ok(receive({peer}))")
        ranks[rank].do("ok(nccl.ncclGroupEnd())")
    assert all(at > 0 for at in together(ranks[:2], ["wait()"] * 2))
    assert ranks[2].ask("cuda.cuStreamQuery(None)") == 0  # it has no part in them


def test_an_aborted_communicator_lets_its_own_rank_go(ranks: list[Caller]) -> None:
    ranks[0].ask("put()")
    ranks[0].do("ok(nccl.ncclCommAbort(comm))")
    assert ranks[0].ask("wait()") > 0
    assert ranks[0].ask("reduce()") == ARGUMENT


def test_wrong_arguments_are_refused(ranks: list[Caller]) -> None:
    one = ranks[0]
    assert one.ask("nccl.ncclAllReduce(None, None, 1, 99, 0, comm, None)") == ARGUMENT
    assert one.ask("send(3)") == ARGUMENT
    assert one.ask("nccl.ncclGroupEnd()") == USAGE
    assert one.ask("join(bytes(128).hex(), 2, 0)") == ARGUMENT
    assert one.ask("join(new_id(), 2, 2)") == ARGUMENT
    assert one.ask("join(new_id(), 65, 0)") == ARGUMENT
    assert one.ask("nccl.ncclGetErrorString(4).decode()") == "invalid argument"


def test_the_library_says_that_it_is_simulated() -> None:
    table = subprocess.run(
        ["nm", "-D", "--defined-only", str(NCCL)], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in table.splitlines()}
    assert {name for name in names if not name.startswith("nccl")} == {"stoker_sim_driver"}
    assert b"SIM nccl" in NCCL.read_bytes()
