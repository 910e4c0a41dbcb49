# SPDX-License-Identifier: Apache-2.0
"""The kernel's names: found by address in any order of lines, and small in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from stoker.probes.host.kernel_symbols import KernelSymbols


def test_a_function_is_found_from_its_start_to_the_next_one() -> None:
    table = KernelSymbols([b"40 t of_a_module\t[nvidia]\n", b"20 T later\n", b"10 t first\n"])
    found = [table.name(address) for address in (0xF, 0x10, 0x1F, 0x20, 0x3F, 0x40, 2**64 - 1)]
    assert found == ["", "first", "first", "later", "later", "of_a_module", "of_a_module"]


def test_hidden_addresses_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "kallsyms").write_text("0000000000000000 T hidden\n")
    assert len(KernelSymbols.read(tmp_path / "kallsyms")) == 0
    assert KernelSymbols.read(tmp_path / "none").name(2**63) == ""


def test_the_running_kernel_names_its_functions() -> None:
    table = KernelSymbols.read()
    if not len(table):
        pytest.skip("this kernel hides the addresses of its functions (kptr_restrict)")
    assert len(table) > 10_000
    assert table.name(2**64 - 1)


def test_a_function_takes_little_more_than_its_name() -> None:
    lines = [b"%x t function_%05d\n" % (address, address) for address in range(1, 20_001)]
    tracemalloc.start()
    table = KernelSymbols(lines)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.name(20_000) == "function_20000"
    assert held < 20_000 * (len("function_00000") + 20)
