# SPDX-License-Identifier: Apache-2.0
"""Symbols and notes of libraries, whole, stripped and damaged."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.native.errors import BadRequest, NotSupported, StokerError
from stoker.probes.calls.elf import ElfFile
from tests.probes.gpu_jobs import compile_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    return compile_library(folder / "libcuda.so.1")


def read(path: Path) -> ElfFile:
    """The library, by a descriptor that the garbage collector does not matter for."""
    fd = os.open(path, os.O_RDONLY)
    copy = os.memfd_create("library")  # closed with the test process
    os.write(copy, path.read_bytes())
    os.close(fd)
    return ElfFile(copy, path.name)


def addresses(path: Path) -> dict[str, int]:
    """Symbols according to nm, an independent reader of the file."""
    listing = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True)
    rows = [line.split() for line in listing.stdout.decode().splitlines()]
    return {name: int(address, 16) for address, kind, name in rows if kind in "Tti"}


def test_functions_are_where_nm_says(library: Path) -> None:
    elf, expected = read(library), addresses(library)
    assert len(expected) > 10
    for name, address in expected.items():
        assert [symbol.address for symbol in elf.symbols(name)] == [address]
    assert elf.symbols("cuMemFree_v2")[0].kind == "ifunc"
    assert elf.symbols("cuLaunchKernel")[0].kind == "func"
    assert elf.symbols("nanosleep") == elf.inner("nanosleep") == []  # used, not defined
    assert elf.symbols("chosen") == []  # its own
    assert [symbol.kind for symbol in elf.inner("chosen")] == ["func"]
    assert elf.machine == "x86_64"


def test_the_code_of_a_function_is_its_first_bytes(library: Path) -> None:
    elf = read(library)
    (symbol,) = elf.symbols("cuMemAlloc_v2")
    assert elf.code(symbol.address, 6) == bytes.fromhex("0f1f44000055")
    with pytest.raises(BadRequest, match="no executable part"):
        elf.code(1 << 40, 4)


def test_a_probe_of_the_author_is_found_with_its_semaphore(library: Path) -> None:
    elf = read(library)
    (note,) = elf.usdt
    assert (note.provider, note.name) == ("fake", "launch")
    assert elf.code(note.address, 1) == b"\x90"
    listing = subprocess.run(["nm", library], check=True, capture_output=True).stdout.decode()
    expected = next(r for r in listing.splitlines() if r.endswith("fake_launch_semaphore"))
    assert note.semaphore == int(expected.split()[0], 16)


def test_a_stripped_library_is_as_good(library: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "--strip-all", "-o", stripped, library], check=True)
    without = bytearray(stripped.read_bytes())
    struct.pack_into("<Q", without, 40, 0)  # e_shoff
    struct.pack_into("<HH", without, 60, 0, 0)  # e_shnum, e_shstrndx
    headless = tmp_path / "headless.so"
    headless.write_bytes(without)
    for name, address in addresses(library).items():
        for path in (stripped, headless):
            assert [symbol.address for symbol in read(path).symbols(name)] == [address]
    assert read(headless).usdt == []


def test_the_older_hash_table_counts_as_well(tmp_path: Path) -> None:
    path = compile_library(tmp_path / "old.so", "-Wl,--hash-style=sysv")
    assert read(path).symbols("cuLaunchKernel")


def test_versions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    source, script = tmp_path / "versions.c", tmp_path / "versions.map"
    source.write_text(
        'int first(void) { return 1; }\n__asm__(".symver first, call@V1");\n'
        'int second(void) { return 2; }\n__asm__(".symver second, call@@V2");\n'
    )
    script.write_text("V1 { global: call; local: *; };\nV2 { global: call; } V1;\n")
    path = tmp_path / "versions.so"
    argv = ["cc", "-shared", "-fPIC", f"-Wl,--version-script={script}", "-o", path, source]
    subprocess.run(argv, check=True)
    found = read(path).symbols("call")
    assert {(symbol.version, symbol.default) for symbol in found} == {("V1", False), ("V2", True)}
    assert len({symbol.address for symbol in found}) == 2


def test_what_is_no_64_bit_library_is_named(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(b"#!/bin/sh\n" + bytes(100))
    with pytest.raises(BadRequest, match="no ELF file"):
        read(path)
    narrow = bytearray(library.read_bytes())
    narrow[4] = 1  # ELFCLASS32
    path.write_bytes(narrow)
    with pytest.raises(NotSupported, match="64-bit"):
        read(path)
    path.write_bytes(library.read_bytes()[:20])
    with pytest.raises(BadRequest, match="beyond its end"):
        read(path)
    arm = bytearray(library.read_bytes())
    struct.pack_into("<H", arm, 18, 183)
    path.write_bytes(arm)
    assert read(path).machine == "aarch64"


def everything(elf: ElfFile) -> None:
    for symbol in (*elf.symbols("cuLaunchKernel"), *elf.symbols("call")):
        elf.code(symbol.address, 15)
        elf.offset_of(symbol.address)
    assert len(elf.usdt) < 100


@settings(max_examples=200)
@given(data=st.data())
def test_no_damage_raises_anything_else(library: Path, data: st.DataObject) -> None:
    """Bytes of headers and tables are changed, and the end is cut off."""
    whole = library.read_bytes()
    bytes_ = bytearray(whole)
    tables = [(0, 64), (64, 700), (struct.unpack_from("<Q", whole, 40)[0], 2500), (0, len(whole))]
    start, length = data.draw(st.sampled_from(tables))
    for _ in range(data.draw(st.integers(1, 6))):
        at = min(start + data.draw(st.integers(0, length - 1)), len(whole) - 1)
        bytes_[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    if data.draw(st.booleans()):
        del bytes_[data.draw(st.integers(0, len(bytes_))) :]
    fd = os.memfd_create("damaged")
    try:
        os.write(fd, bytes_)
        everything(ElfFile(fd))
    except StokerError as error:
        assert error.message
    finally:
        os.close(fd)
