# SPDX-License-Identifier: Apache-2.0
"""Every function of every simulated driver library under sanitizers, called by one that means ill.

What each takes is read from its definition, so a function that is added is walked as well: walk.c.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stoker.native import _sim
from stoker.probes.simdriver import libraries, profiles
from tests.rounds import rounds

ROOT = Path(__file__).parents[3]
SIM = ROOT / "native/sim"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = ("-std=gnu11", "-g", "-O0", "-Wall", "-Wextra", "-Wno-unused-parameter", "-D_GNU_SOURCE")
ROUNDS = rounds(6, 240)
DAMAGES = range(3)


class Library(NamedTuple):
    """One of them: how its functions are defined, and which of its types are handles."""

    folder: str
    path: Path
    prefix: str
    define: str
    handles: dict[str, str]
    """Type -> pool; a pointer to it is a place for one."""
    begins: tuple[str, ...]
    cards: dict[str, int]
    """Profile -> so many of its cards, in a node of theirs."""
    flags: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    """Sources that are not of it."""


NVML = Library(
    "nvml",
    libraries.NVML,
    "nvml",
    r"SK_NVML (?:const char \*|nvmlReturn_t\s+)",
    {"nvmlDevice_t": "device", "struct sk_nvml_set *": "set", "struct sk_nvml_gpm *": "gpm"},
    ("nvmlInit_v2", "nvmlEventSetCreate", "nvmlGpmSampleAlloc"),
    {"8xA100-MIG": 2, "8xH200": 1, "4xL40S": 2},
)
AMDSMI = Library(
    "amdsmi",
    libraries.AMDSMI,
    "amdsmi_",
    r"SK_AMD_API\s+",
    {"void *": "handle"},
    ("amdsmi_init", "amdsmi_get_socket_handles", "amdsmi_get_processor_handles"),
    {"8xMI300X": 3},
)
LEVELZERO = Library(
    "levelzero",
    libraries.ZE_LOADER,
    "ze",
    r"SK_ZE_API\s+",
    {"void *": "handle"},
    ("zeInit", "zesInit", "zesDriverGet", "zesDeviceGet"),
    {"4xMax1550": 3},
    ("-DSK_ZE_LOADER",),
    ("tables.c",),
)
CUDA = Library(
    "cuda",
    libraries.CUDA,
    "cu",
    r"SK_CUDA ",
    {
        "struct sk_cuda_context *": "context",
        "struct sk_cuda_stream *": "stream",
        "struct module *": "module",
        "struct function *": "function",
        "struct event *": "event",
        "struct handle *": "allocation",
    },
    ("cuInit", "cuCtxCreate_v2", "cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc_v2"),
    {"8xH200": 3},
)
LIBRARIES = (NVML, AMDSMI, LEVELZERO, CUDA)
KINDS = {
    "PowerDomain": "power",
    "FrequencyDomain": "domain",
    "TemperatureSensor": "sensor",
    "EngineGroup": "engine",
    "MemoryModule": "memory",
    "RasErrorSet": "errors",
    "Fan": "fan",
    "FabricPort": "port",
    "DriverGet": "driver",
}
"""Part of the name of a function of Level Zero that enumerates -> pool."""
POOLS = ["device", "set", "gpm", "handle", "address", "host", *CUDA.handles.values()]
POOLS += [*KINDS.values(), "instance"]
OWNED = {"set", "gpm"}
"""Objects of the library's heap: a stale one is the caller's own fault."""
POINTERS = {
    "nvmlProcessDetailList_v1_t",
    "nvmlProcessesUtilizationInfo_v1_t",
    "nvmlGpmMetricsGet_t",
    "struct sk_cuda_launch",
}
"""Structures with pointers in them, beside those of Level Zero, whose all have one."""
AT_LEAST = {"nvmlGpuInstancePlacement_t": 8, "nvmlComputeInstancePlacement_t": 8}
"""Arrays that have to have room for all there can be: their count is not read."""
ALL_OF_THEM = ("nvmlDeviceGetGpuInstances", "nvmlGpuInstanceGetComputeInstances")
"""Functions that return all handles, whose array needs room for all there can be."""
NO_CARE = ("cuMemcpy", "cuMemcpyAsync")
"""Addresses are taken as they are, as the host's can be."""


PARTS = {"set": "errors"}


def parameters(text: str) -> Iterator[tuple[str, str]]:
    """(type, name) of each."""
    for part in " ".join(text.split()).split(", "):
        if part not in ("void", ""):
            found = re.fullmatch(r"(.*?)\s*(\w+)(\[\d+\])?", part)
            assert found, part
            yield found[1] + (f" *{found[3]}" if found[3] else ""), found[2]


def definitions(library: Library) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for source in sorted((SIM / library.folder).glob("*.c")):
        if source.name in library.leave:
            continue
        text = source.read_text()
        pattern = rf"^{library.define}(\w+)\(((?:[^()]|\([^()]*\))*)\)\s*\{{"
        for name, told in re.findall(pattern, text, re.MULTILINE):
            if "(*function)" not in told:
                yield name, list(parameters(told))
        for name, kind in re.findall(r"^SK_NVML_VALUE(?:_IF)?\((\w+), (\w+),", text, re.MULTILINE):
            yield name, [("nvmlDevice_t", "device"), (f"{kind} *", "ret")]
        for name in re.findall(r"^SK_NVML_TEXT\((\w+),", text, re.MULTILINE):
            yield name, [("nvmlDevice_t", "device"), ("char *", "ret"), ("uint32_t", "size")]


COUNTS = {"count", "size", "bytes", "length", "words"}


def parameter(  # noqa: PLR0911, PLR0912
    library: Library, function: str, told: list[tuple[str, str]], at: int
) -> str:
    """The line of one function for walk.c."""
    kind, name = told[at]
    const, kind = kind.startswith("const "), kind.removeprefix("const ")
    if kind.endswith("]"):
        return f"{{OBJECT, sizeof({kind.replace(' *', '')}), 0}}"
    numbers = {other for what, other in told if "*" not in what}
    counted = any(n in COUNTS and (k == "uint32_t *" or "*" not in k) for k, n in told)
    if "*" not in kind and kind != "nvmlDevice_t":
        return number(library, function, kind, name, told)
    if library is CUDA and kind == "void *":
        return memory(function, name)
    if kind in library.handles and name != "entries":
        pool = library.handles[kind] if library is not LEVELZERO else PARTS.get(name, name)
        pool = pool if pool in POOLS else "device"
        if function.startswith(("nvmlGpuInstance", "nvmlComputeInstance", "nvmlDeviceGetAttr")):
            pool = "instance"
        return f"{{{'OWNED' if pool in OWNED else 'HANDLE'}, 0, {POOLS.index(pool)}}}"
    target = kind.removesuffix(" *").removesuffix("*").rstrip()
    target_handle = f"{target} *" if f"{target} *" in library.handles else target
    if kind.endswith("**"):
        target_handle = kind[:-1].rstrip() + ("" if kind[:-1].rstrip().endswith("*") else " *")
    if target_handle in library.handles and kind != target_handle:
        pool = library.handles[target_handle]
        if library is LEVELZERO:
            pool = next((to for part, to in KINDS.items() if part in function), "device")
        if library is NVML and re.search("GpuInstance|MigDeviceHandleBy|ComputeInst", function):
            pool = "instance"
        if function in ALL_OF_THEM:
            return f"{{RETURNS, 64, {POOLS.index(pool)}}}"
        return f"{{{'RETURNS' if counted else 'RETURN'}, 8, {POOLS.index(pool)}}}"
    if name in ("count", "length") and target == "uint32_t":
        return "{COUNTED, 0, 0}"
    if target == "char":
        if const:
            return "{TEXT, 0, 0}"
        return "{BLOCK, 1, 0}" if counted else "{ENOUGH, 80, 0}"
    if kind.endswith("**"):
        pool = POOLS.index("host")
        return f"{{{'RETURN' if 'Alloc' in function else 'OBJECT'}, 8, {pool}}}"
    if library is CUDA and target == "uint64_t" and name == "ret":
        return f"{{RETURN, 8, {POOLS.index('address')}}}"
    size = f"sizeof({target if target != 'void' else 'uint64_t'})"
    if target in AT_LEAST:
        return f"{{ENOUGH, {size} * {AT_LEAST[target]}, 0}}"
    single = {"ret_type", "timestamp", "number", "hops"}
    if counted and name not in single and not name.startswith("on_"):
        one = "1" if library is NVML and "bytes" in numbers else size
        return f"{{BLOCK, {one}, 0}}"
    zeros = target in POINTERS or (library is LEVELZERO and target.startswith("struct "))
    return f"{{{'ZEROS' if zeros else 'OBJECT'}, {size}, 0}}"


def number(
    library: Library, function: str, kind: str, name: str, told: list[tuple[str, str]]
) -> str:
    if name.startswith("timeout"):
        return "{SHORT, 0, 0}"
    if library is CUDA:
        host = any("void *" in what and other in ("to", "from") for what, other in told)
        text = any(what == "char *" for what, _ in told)
        if name in ("to", "from", "address"):
            if function in NO_CARE:
                return "{BLOCK, 1, 0}"
            return f"{{HANDLE, 0, {POOLS.index('address')}}}"
        if kind == "size_t" or name in COUNTS:
            plain = host or text or name == "count" or function in NO_CARE
            return "{COUNT, 0, 0}" if plain else "{SIZE, 0, 0}"
        short = name in ("device", "flags") or re.fullmatch("[gb][xyz]", name)
        return "{SHORT, 0, 0}" if short else "{NUMBER, 0, 0}"
    return "{COUNT, 0, 0}" if name in COUNTS else "{NUMBER, 0, 0}"


def memory(function: str, name: str) -> str:
    """The meaning of a `void *` of CUDA."""
    if name in ("stream", "handle"):
        return f"{{HANDLE, 0, {POOLS.index('stream')}}}"
    if name == "address":
        return f"{{HANDLE, 0, {POOLS.index('host')}}}"
    if name == "shared":
        return "{SHORT, 0, 0}"
    if name in ("to", "from"):
        return "{BLOCK, 1, 0}"
    return "{OBJECT, 8, 0}"


def rows(library: Library) -> str:
    """The table of all that the built library exports."""
    argv = ["nm", "-D", "--defined-only", library.path]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    exported = set(re.findall(rf" [TWV] ({library.prefix}\w+)$", said, re.MULTILINE))
    known = dict(definitions(library))
    assert set(known) <= exported, set(known) - exported
    lines = [f"extern uint64_t {name}();" for name in sorted(exported)]
    lines.append("static const struct row rows[] = {")
    for name in sorted(exported, key=lambda name: (*library.begins, name).index(name)):
        told = known.get(name, [])
        if name == "amdsmi_free_name_value_pairs":
            told = []  # what is not its own it cannot know
        if name == "cuLaunchHostFunc":
            args = [f"{{HANDLE, 0, {POOLS.index('stream')}}}", "{CALL, 0, 0}", "{OBJECT, 8, 0}"]
        else:
            args = [parameter(library, name, told, at) for at in range(len(told))]
        if any(kind == "struct sk_zes_uuid" for kind, _ in told):
            args.insert(1, "{NUMBER, 0, 0}")  # two registers
        flags = f"{int(name in library.begins)}, {int('Free' in name)}"
        lines.append(
            f'\t{{"{name}", (void *){name}, {flags}, {len(args)}, {{{", ".join(args)}}}}},'
        )
    return "\n".join([*lines, "};", ""])


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The parts of the simulation that all libraries share, compiled once."""
    folder = tmp_path_factory.mktemp("core")
    sources = [str(path) for path in sorted((*SIM.glob("card/*.c"), *SIM.glob("node/*.c")))]
    argv = ["cc", *FLAGS, *SANITIZERS, f"-I{ROOT / 'native'}", "-c", *sources]
    subprocess.run(argv, cwd=folder, check=True)
    return [str(path) for path in sorted(folder.glob("*.o"))]


def cards_of(library: Library) -> list[dict[str, Any]]:
    chosen = [profiles.load(name)[:count] for name, count in library.cards.items()]
    return [card for each in chosen for card in each]


def texts(library: Library) -> str:
    """The functions that a program may look up by name."""
    told = ["k_5us", "cuMemAlloc", "/dev/null"]
    for card in cards_of(library):
        told += [card["uuid"], card["serial"], card["bus_id"]]
        told += [part["uuid"] for part in card.get("partitions", [])[:1]]
    listed = ", ".join(f'"{text}"' for text in told)
    return f"static const char *const texts[] = {{{listed}}};\n"


def node_of(library: Library, path: Path) -> _sim.Node:
    """Make a node in virtual time, which goes on with each call, and let much befall it."""
    node = _sim.Node.create(str(path), cards_of(library), True, 5)
    node.set_latency(10_000)
    node.set_load(0, 0.9, 0.5, 0.2)
    node.advance(10**9)
    now, ms = node.now_ns, 10**6
    node.inject("drop", value=30)
    for at, (kind, how) in enumerate(
        [
            ("ecc", {"value": 1, "count": 300}),
            ("xid", {"value": 95, "card": 1}),
            ("reset", {"card": 1}),
            ("version", {}),
            ("permission", {}),
            ("lost", {"card": 0}),
            ("recovery", {"value": 1}),
            ("reload", {}),
        ]
    ):
        node.inject(kind, from_ns=now + at * 5 * ms, until_ns=now + (at * 5 + 4) * ms, **how)
    return node


@pytest.fixture(scope="module")
def damaging(core: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """check.c, which writes anything into a node."""
    made = tmp_path_factory.mktemp("damage") / "check"
    source = Path(__file__).with_name("check.c")
    argv = ["cc", *FLAGS, *SANITIZERS, f"-I{ROOT / 'native'}", source, *core, "-o", made]
    subprocess.run([*argv, "-lm", "-pthread"], check=True)
    return made


class Walker(NamedTuple):
    library: Library
    path: Path
    functions: int


@pytest.fixture(scope="module", params=LIBRARIES, ids=lambda library: library.folder)
def walker(
    request: pytest.FixtureRequest, core: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Walker:
    """One library and who calls it, in one program."""
    library: Library = request.param
    folder = tmp_path_factory.mktemp(library.folder)
    table = rows(library)
    (folder / "rows.h").write_text(
        {
            "nvml": '#include "sim/nvml/abi.h"\n',
            "amdsmi": '#include "sim/amdsmi/abi.h"\n',
            "levelzero": '#include "sim/levelzero/abi.h"\n',
            "cuda": '#include "sim/cuda/library.h"\n',
        }[library.folder]
        + texts(library)
        + table
    )
    sources = [
        str(path)
        for path in sorted((SIM / library.folder).glob("*.c"))
        if path.name not in library.leave
    ]
    sources.append(str(Path(__file__).with_name("walk.c")))
    made = folder / "walk"
    argv = ["cc", *FLAGS, *library.flags, *SANITIZERS, f"-I{ROOT / 'native'}", f"-I{folder}"]
    subprocess.run([*argv, *sources, *core, "-o", made, "-lm", "-pthread"], check=True)
    return Walker(library, made, table.count("(void *)"))


def walk(made: Path, rounds: int, node: Path, **more: str) -> str:
    done = subprocess.run(
        [made, "1", str(rounds)],
        env={"STOKER_SIM_NODE": str(node), "ASAN_OPTIONS": "detect_leaks=0", **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.rounds
def test_no_call_reads_or_writes_what_it_was_not_given(walker: Walker, tmp_path: Path) -> None:
    node = node_of(walker.library, tmp_path / "node")
    said = walk(walker.path, ROUNDS, tmp_path / "node")
    assert said == f"walked {walker.functions} functions {ROUNDS * 8} times\n"
    assert node.describe()["calls"] > walker.functions * ROUNDS


def test_no_call_trusts_what_is_written_in_the_node(
    walker: Walker, damaging: Path, tmp_path: Path
) -> None:
    """Counts, places and numbers that no node has are bound wherever they are used."""
    for seed in DAMAGES:
        path = tmp_path / str(seed)
        node_of(walker.library, path)
        subprocess.run([damaging, "damage", path, str(seed)], check=True, timeout=60)
        assert walk(walker.path, 1, path, WALK_DAMAGED="1").startswith("walked")
