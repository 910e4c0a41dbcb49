# SPDX-License-Identifier: Apache-2.0
"""The unmodified cuda-bindings on a simulated libcuda.so.1: memory, mappings, streams, launches."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fakes.cards.callers import Caller, calling

from stoker.native import _sim
from stoker.native.paths import library
from stoker.probes.calls.call_probes import CallProbes
from stoker.probes.calls.call_records import CallLimits
from stoker.probes.calls.trap_cost import ELSEWHERE
from stoker.probes.simdriver import profiles
from tests.probes.gpu_jobs import DEARLY
from tests.probes.groups import require_root

MS = 1_000_000
GIB = 1 << 30
NO_MEMORY, NO_DEVICE, INVALID, NOT_READY, NOT_SUPPORTED = 2, 100, 1, 600, 801
ALREADY_MAPPED, HANDLE, CONTEXT, UNKNOWN, MISMATCH = 208, 400, 201, 999, 803

BEGIN = """
from cuda.bindings import driver as d

def ok(said):
    if int(said[0]):
        raise AssertionError(said[0].name)
    return said[1] if len(said) == 2 else said[1:]

def code(said):
    return int(said[0])

started = code(d.cuInit(0))
"""

MAPPING = """
P = d.CUmemAllocationProp()
P.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
P.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
P.requestedHandleTypes = (
    d.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
A = d.CUmemAccessDesc()
A.location.type = P.location.type
A.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
G = ok(d.cuMemGetAllocationGranularity(
    P, d.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))

def read(address, count):
    buffer = (ctypes.c_uint32 * count)()
    ok(d.cuMemcpyDtoH(ctypes.addressof(buffer), address, 4 * count))
    return list(buffer)
"""


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begun(
    stack: ExitStack, folder: Path, *, virtual: bool = True, **environment: str
) -> tuple[_sim.Node, Caller]:
    """A node of eight H200 and a child with the driver's bindings on it."""
    path = folder / "node"
    node = profiles.node("8xH200", path, virtual=virtual, seed=3)
    found = str(library("sim/nvidia/libcuda.so.1").parent)
    caller = stack.enter_context(calling(path, LD_LIBRARY_PATH=found, **environment))
    caller.do(BEGIN)
    return node, caller


def test_every_function_is_exported_and_the_rest_is_counted(
    cleanup: ExitStack, tmp_path: Path
) -> None:
    file = str(library("sim/nvidia/libcuda.so.1"))
    told = ["nm", "-D", "--defined-only", file]
    table = subprocess.run(told, capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in table.splitlines()}
    assert len(exported) > 550
    assert {name for name in exported if not re.match("cu[A-Z]", name)} == {
        "stoker_sim_driver",
        "stoker_sim_cuda_fence",
        "stoker_sim_cuda_left",
        "stoker_sim_cuda_listen",
        "stoker_sim_cuda_now",
    }
    node, caller = begun(cleanup, tmp_path)
    assert caller.ask("code(d.cuGraphCreate(0))") == NOT_SUPPORTED
    assert node.calls()["cuGraphCreate"] == (1, 1)


def test_functions_are_found_by_name_and_version(cleanup: ExitStack, tmp_path: Path) -> None:
    _, caller = begun(cleanup, tmp_path)
    caller.do("lib = ctypes.CDLL('libcuda.so.1')")
    caller.do(
        """
def found(name, version):
    at, status = ctypes.c_void_p(), ctypes.c_int(-1)
    assert lib.cuGetProcAddress_v2(name, ctypes.byref(at), version, ctypes.c_uint64(0),
                                   ctypes.byref(status)) == 0
    same = [n for n in ("", "_v2", "_v3", "_v4") if at.value and at.value == ctypes.cast(
        getattr(lib, name.decode() + n, None), ctypes.c_void_p).value]
    return same, status.value
"""
    )
    for name, version, expected in [
        ("cuMemAlloc", 3010, ([""], 0)),
        ("cuMemAlloc", 3020, (["_v2"], 0)),
        ("cuCtxCreate", 12000, (["_v3"], 0)),
        ("cuCtxCreate", 13000, (["_v4"], 0)),
        ("cuLaunchKernel", 4000, ([""], 0)),
        ("cuLaunchKernelEx", 11000, ([], 2)),
        ("cuNothing", 13000, ([], 1)),
    ]:
        assert caller.ask(f"found(b'{name}', {version})") == list(expected), name


def test_devices_are_the_profiles(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path)
    assert caller.ask("ok(d.cuDeviceGetCount())") == 8
    for device in range(8):
        model = node.truth(device)["model"]
        name = caller.ask(f"ok(d.cuDeviceGetName(96, {device})).split(b'\\0')[0].decode()")
        assert name == model["name"]
        assert caller.ask(f"ok(d.cuDeviceTotalMem({device}))") == model["memory_bytes"]
        uuid = caller.ask(f"bytes(ok(d.cuDeviceGetUuid({device})).bytes).hex()")
        assert uuid == model["uuid"].removeprefix("GPU-").replace("-", "")
        bus = caller.ask(f"ok(d.cuDeviceGetPCIBusId(16, {device})).split(b'\\0')[0].decode()")
        assert bus == model["bus_id"][4:]
    attribute = "ok(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_{}, 0))"
    assert caller.ask(attribute.format("MULTIPROCESSOR_COUNT")) == node.truth(0)["model"]["units"]
    assert caller.ask(attribute.format("COMPUTE_CAPABILITY_MAJOR")) == 9
    assert caller.ask(attribute.format("WARP_SIZE")) == 32


def test_only_visible_devices_are_there(cleanup: ExitStack, tmp_path: Path) -> None:
    uuid = profiles.load("8xH200", 3)[5]["uuid"]
    _, caller = begun(cleanup, tmp_path, CUDA_VISIBLE_DEVICES=f"{uuid},2,nobody,1")
    assert caller.ask("ok(d.cuDeviceGetCount())") == 2
    first = caller.ask("bytes(ok(d.cuDeviceGetUuid(0)).bytes).hex()")
    assert first == uuid.removeprefix("GPU-").replace("-", "")


def test_memory_is_the_cards_and_copies_are_real(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path)
    before = node.truth(0)["now"]["memory_used"]
    assert caller.ask("code(d.cuMemAlloc(1))") == CONTEXT
    caller.do("c = ok(d.cuCtxCreate(None, 0, 0))")
    empty = caller.ask("ok(d.cuMemGetInfo())[0]")
    caller.do(f"m = ok(d.cuMemAlloc({GIB}))")
    assert caller.ask("ok(d.cuMemGetInfo())[0]") == empty - GIB
    (process,) = node.truth(0)["processes"]
    assert process["pid"] == caller.ask("os.getpid()")
    assert node.truth(0)["now"]["memory_used"] == before + process["memory_bytes"] > before + GIB
    caller.do("s, t = (ctypes.c_uint32 * 64)(*range(64)), (ctypes.c_uint32 * 64)()")
    caller.do("ok(d.cuMemcpyHtoD(m, ctypes.addressof(s), 256))")
    caller.do("ok(d.cuMemcpyDtoD(int(m) + 4096, m, 256))")
    caller.do("ok(d.cuMemcpyDtoH(ctypes.addressof(t), int(m) + 4096, 256))")
    assert caller.ask("list(t)") == list(range(64))
    assert caller.ask(f"code(d.cuMemcpyHtoD(int(m) + {GIB} - 128, ctypes.addressof(s), 256))") == 1
    assert caller.ask("code(d.cuMemcpyDtoH(ctypes.addressof(t), 4096, 256))") == INVALID
    assert caller.ask(f"code(d.cuMemAlloc({2**48}))") == NO_MEMORY
    caller.do("ok(d.cuMemFree(m))")
    assert caller.ask("code(d.cuMemFree(m))") == INVALID
    assert caller.ask("ok(d.cuMemGetInfo())[0]") == empty
    caller.do("ok(d.cuCtxDestroy(c))")
    assert node.truth(0)["now"]["memory_used"] == before


def test_mappings_alias_their_memory_and_are_protected(cleanup: ExitStack, tmp_path: Path) -> None:
    _, caller = begun(cleanup, tmp_path)
    caller.do("c = ok(d.cuCtxCreate(None, 0, 0))")
    caller.do(MAPPING)
    free = caller.ask("ok(d.cuMemGetInfo())[0]")
    caller.do("v = int(ok(d.cuMemAddressReserve(4 * G, 8 * G, 0, 0))); assert v % (8 * G) == 0")
    assert caller.ask("ok(d.cuMemGetInfo())[0]") == free
    caller.do("h = ok(d.cuMemCreate(G, P, 0))")
    assert caller.ask("ok(d.cuMemGetInfo())[0]") == free - caller.ask("G")
    caller.do("ok(d.cuMemMap(v, G, 0, h, 0)); ok(d.cuMemMap(v + 2 * G, G, 0, h, 0))")
    assert caller.ask("code(d.cuMemMap(v, G, 0, h, 0))") == ALREADY_MAPPED
    assert caller.ask("code(d.cuMemMap(v + G // 2, G, 0, h, 0))") == INVALID
    assert caller.ask("code(d.cuMemsetD32(v, 7, 4))") == INVALID  # nobody may touch it yet
    caller.do("ok(d.cuMemSetAccess(v, G, [A], 1)); ok(d.cuMemSetAccess(v + 2 * G, G, [A], 1))")
    caller.do("ok(d.cuMemsetD32(v, 7, G // 4 - 1)); ok(d.cuMemsetD32(v + G - 4, 7, 1))")
    assert caller.ask("read(v + 3 * G - 8, 2)") == [7, 7]
    caller.do("fd = ok(d.cuMemExportToShareableHandle(h, P.requestedHandleTypes, 0))")
    caller.do("fd = int(fd)")
    assert caller.ask("os.fstat(fd).st_size == G")
    caller.do("k = ok(d.cuMemImportFromShareableHandle(fd, P.requestedHandleTypes))")
    caller.do("ok(d.cuMemMap(v + G, G, 0, k, 0)); ok(d.cuMemSetAccess(v + G, G, [A], 1))")
    assert caller.ask("read(v + G, 1)") == [7]
    assert caller.ask("code(d.cuMemAddressFree(v, 4 * G))") == INVALID
    caller.do("ok(d.cuMemRelease(h)); ok(d.cuMemRelease(k)); ok(d.cuMemUnmap(v, 3 * G))")
    assert caller.ask("code(d.cuMemRelease(h))") == INVALID
    caller.do("ok(d.cuMemAddressFree(v, 4 * G))")
    assert caller.ask("ok(d.cuMemGetInfo())[0]") == free


KERNELS = """
c = ok(d.cuCtxCreate(None, 0, 0))
m = ok(d.cuModuleLoadData(b"any image"))
f = ok(d.cuModuleGetFunction(m, b"matmul_20ms"))
g = ok(d.cuModuleGetFunction(m, b"_Z8copy_5usPf"))
a, b = ok(d.cuStreamCreate(1)), ok(d.cuStreamCreate(1))
x, y = ok(d.cuEventCreate(0)), ok(d.cuEventCreate(0))

def launch(kernel, stream, count=1):
    for _ in range(count):
        ok(d.cuLaunchKernel(kernel, 1, 1, 1, 256, 1, 1, 0, stream, 0, 0))

def timed(stream, *work):
    ok(d.cuEventRecord(x, stream))
    for each in work:
        each()
    ok(d.cuEventRecord(y, stream))
    ok(d.cuEventSynchronize(y))
    return ok(d.cuEventElapsedTime(x, y))
"""


def test_kernels_take_their_time_in_their_stream(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path)
    caller.do(KERNELS)
    node.set_load(0, 0.0, 0.0, 1.0)  # bound by memory: no clock makes it faster
    assert caller.ask("timed(a, lambda: launch(f, a, 5))") == pytest.approx(100)
    assert caller.ask("timed(a, lambda: launch(g, a, 10))") == pytest.approx(0.05)
    assert caller.ask("code(d.cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, a, 0, 0))") == INVALID
    assert caller.ask("code(d.cuLaunchKernel(f, 0, 1, 1, 32, 1, 1, 0, a, 0, 0))") == INVALID
    assert node.truth(0)["now"]["busy_s"] == pytest.approx(0.10005, rel=1e-3)
    assert node.truth(0)["load"]["compute"] == 0
    caller.do("ok(d.cuModuleUnload(m))")
    assert caller.ask("code(d.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, a, 0, 0))") == HANDLE


def test_a_lower_clock_makes_them_slower(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path)
    caller.do(KERNELS)
    top = node.truth(0)["model"]["clock_max_mhz"]
    node.lock_clocks(0, top // 2, top // 2)
    clock = node.truth(0)["model"]["clock_max_mhz"] / (top // 2)
    node.set_load(0, 0.0, 0.0, 0.0)
    assert caller.ask("timed(a, lambda: launch(f, a))") == pytest.approx(20 * clock, rel=0.02)


def test_streams_run_beside_each_other_in_real_time(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, virtual=False, STOKER_SIM_KERNEL_NS=str(300 * MS))
    caller.do(KERNELS)
    node.set_load(0, 0.25, 0.0, 1.0)
    caller.do("h = ok(d.cuModuleGetFunction(m, b'attention'))")
    caller.do("ok(d.cuEventRecord(x, a)); launch(h, a); launch(h, b); ok(d.cuEventRecord(y, b))")
    assert caller.ask("[code(d.cuStreamQuery(each)) for each in (a, b)]") == [NOT_READY] * 2
    assert node.truth(0)["load"]["compute"] == 1.0
    caller.do("ok(d.cuCtxSynchronize())")
    # Both 300 ms kernels ran at once, however late the second was launched.
    assert 300 <= caller.ask("ok(d.cuEventElapsedTime(x, y))") < 600
    caller.do("import time; time.sleep(0.05)")
    assert node.truth(0)["load"]["compute"] == 0.25


def test_calls_of_cuda_13_name_a_context_or_mean_the_current_one(
    cleanup: ExitStack, tmp_path: Path
) -> None:
    _, caller = begun(cleanup, tmp_path)
    caller.do(
        """
lib = ctypes.CDLL('libcuda.so.1')
other, here = ok(d.cuCtxCreate(None, 0, 5)), ok(d.cuCtxCreate(None, 0, 2))

def device_of(context):
    device = ctypes.c_int(-1)
    return lib.cuCtxGetDevice_v2(ctypes.byref(device), ctypes.c_void_p(context)), device.value
"""
    )
    assert caller.ask("[device_of(int(each)) for each in (other, here, 0)]") == [
        [0, 5],
        [0, 2],
        [0, 2],
    ]
    assert caller.ask("device_of(4096)[0]") == CONTEXT
    wait = "[lib.cuCtxSynchronize_v2(ctypes.c_void_p(int(each))) for each in (other, 0, 4096)]"
    assert caller.ask(wait) == [0, 0, CONTEXT]


def test_faults_reach_the_program(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path)
    caller.do(KERNELS)
    allocate = "code(d.cuMemAlloc(4096))"
    for kind, expected in [("lost", UNKNOWN), ("reload", MISMATCH)]:
        node.inject(kind, 0)
        node.advance(1)
        assert caller.ask(allocate) == expected
        node.heal()
        node.advance(1)
    node.inject("error", 0, value=719, call="cuLaunchKernel")
    node.advance(1)
    said = "code(d.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, a, 0, 0))"
    assert caller.ask(said) == 719


@pytest.mark.needs_bpf
def test_probes_attach_to_it_as_to_the_real_one(cleanup: ExitStack, tmp_path: Path) -> None:
    require_root()
    node, caller = begun(cleanup, tmp_path)
    caller.do(KERNELS)
    probes = CallProbes(ELSEWHERE, CallLimits(budget_ppm=DEARLY))
    probes.load()
    try:
        probes.want({7: [caller.ask("os.getpid()")]})
        probes.look()
        caller.do("launch(g, a, 41); ok(d.cuStreamSynchronize(a)); q = ok(d.cuMemAlloc(4096))")
        seen = {name: calls.returned for name, calls in probes.read(7).items() if calls.returned}
    finally:
        probes.close()
    assert seen == {"cuda.cuLaunchKernel": 41, "cuda.cuStreamSynchronize": 1, "cuda.cuMemAlloc": 1}
    assert node.calls()["cuLaunchKernel"][0] == 41


INJECTED = """
extern int cuInit(unsigned);
int injections, result = -1;
int InitializeInjection(void) { injections++; result = cuInit(0); return 1; }
"""


def test_an_injection_library_is_loaded_once_and_its_failure_is_silent(
    cleanup: ExitStack, tmp_path: Path
) -> None:
    source, made = tmp_path / "injected.c", tmp_path / "injected.so"
    source.write_text(INJECTED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, source], check=True)
    _, caller = begun(cleanup, tmp_path, CUDA_INJECTION64_PATH=str(made))
    caller.do(f"ok(d.cuInit(0)); lib = ctypes.CDLL({str(made)!r})")
    said = "[started, *(ctypes.c_int.in_dll(lib, name).value for name in ('injections', 'result'))]"
    assert caller.ask(said) == [0, 1, 0]
    found = library("sim/nvidia/libcuda.so.1").parent
    for path in (source, tmp_path / "none.so", found / "libnvidia-ml.so.1"):
        environment = {"LD_LIBRARY_PATH": str(found), "CUDA_INJECTION64_PATH": str(path)}
        with calling(tmp_path / "node", **environment) as other:
            other.do(BEGIN)
            assert other.ask("started") == 0


def test_what_a_killed_program_leaves_goes_with_the_next(
    cleanup: ExitStack, tmp_path: Path
) -> None:
    node, caller = begun(cleanup, tmp_path, virtual=False, STOKER_SIM_KERNEL_NS=str(10**12))
    before = node.truth(0)["now"]["memory_used"]
    node.add_process(0, 2**22 + 7, GIB, 0.5, "of the script")  # not this driver's to end
    caller.do(KERNELS)
    caller.do(f"h = ok(d.cuModuleGetFunction(m, b'k')); launch(h, a); q = ok(d.cuMemAlloc({GIB}))")
    assert node.truth(0)["load"]["compute"] == 1
    caller.kill()
    assert len(node.truth(0)["processes"]) == 2
    other = cleanup.enter_context(
        calling(tmp_path / "node", LD_LIBRARY_PATH=str(library("sim/nvidia/libcuda.so.1").parent))
    )
    other.do(BEGIN)
    assert [process["name"] for process in node.truth(0)["processes"]] == ["of the script"]
    assert node.truth(0)["now"]["memory_used"] == before + GIB
    assert node.truth(0)["load"]["compute"] == 0


def test_it_does_not_begin_without_cards_or_node(cleanup: ExitStack, tmp_path: Path) -> None:
    found = str(library("sim/nvidia/libcuda.so.1").parent)
    profiles.node("4xMax1550", tmp_path / "intel", virtual=True)
    for path in (tmp_path / "intel", tmp_path / "nothing"):
        caller = cleanup.enter_context(calling(path, LD_LIBRARY_PATH=found))
        caller.do(BEGIN)
        assert caller.ask("started") == NO_DEVICE
        assert caller.ask("code(d.cuDeviceGetCount())") == 3


def test_a_program_that_ends_leaves_the_card(cleanup: ExitStack, tmp_path: Path) -> None:
    node = profiles.node("8xH200", tmp_path / "node", virtual=True)
    before = node.truth(0)["now"]["memory_used"]
    found = str(library("sim/nvidia/libcuda.so.1").parent)
    with calling(tmp_path / "node", LD_LIBRARY_PATH=found) as caller:
        caller.do(BEGIN)
        caller.do(f"c = ok(d.cuCtxCreate(None, 0, 0)); m = ok(d.cuMemAlloc({GIB}))")
        assert node.truth(0)["now"]["memory_used"] > before + GIB
    assert node.truth(0)["processes"] == []
    assert node.truth(0)["now"]["memory_used"] == before
