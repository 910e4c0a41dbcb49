# SPDX-License-Identifier: Apache-2.0
"""Instructions by the kind of their trap. The expected kinds are those that cost what was measured
in `test_trapcost`, and those of the kernel's own list for what is not measured."""

from __future__ import annotations

import pytest

from stoker.probes.calls.prologue import TRAPS, behind_endbr64, trap_of

KINDS = {
    "0f1f440000": "nop5",
    "0f1f4000": "nop",
    "660f1f440000": "nop",
    "6690": "nop",
    "f390": "nop",
    "90": "nop1",
    "55": "push",
    "53": "push",
    "4157": "push",
    "4150": "push",
    "f30f1efa": "endbr64",
    "e900000000": "branch",
    "eb00": "branch",
    "e800000000": "branch",
    "7405": "branch",
    "0f8400000000": "branch",
    "f2e900000000": "branch",
    "4883ec08": "other",  # sub $8,%rsp
    "488d0424": "other",  # lea (%rsp),%rax
    "4889e5": "other",
    "c3": "other",
    "ff25aabbccdd": "other",  # jmp *x(%rip), as in a PLT
    "f30f1efb": "other",  # endbr32
    "6655": "other",  # push %bp
    "cc": "refused",
    "": "refused",
}


@pytest.mark.parametrize(("code", "kind"), KINDS.items())
def test_the_first_instruction_decides(code: str, kind: str) -> None:
    assert kind in TRAPS
    assert trap_of(bytes.fromhex(code) + bytes(8) * bool(code), "x86_64") == kind


def test_other_machines_are_not_guessed_at() -> None:
    assert trap_of(bytes.fromhex("55") + bytes(8), "aarch64") == "unknown"
    assert behind_endbr64(bytes.fromhex("f30f1efa55"), "aarch64") is None


@pytest.mark.parametrize(
    ("behind", "kind"),
    [
        ("55", "push"),
        ("0f1f440000", "nop5"),
        ("e900000000", "branch"),
        ("4157", "push"),
        ("e800000000", None),  # a call inside of a loop would look the same
        ("7405", None),
        ("90", None),
        ("4883ec08", None),  # its return could not be probed behind it, and it is stepped
        ("f30f1efa", None),
    ],
)
def test_behind_an_endbr64_only_what_runs_once_a_call(behind: str, kind: str | None) -> None:
    assert behind_endbr64(bytes.fromhex("f30f1efa" + behind) + bytes(8), "x86_64") == kind


def test_without_an_endbr64_nothing_is_behind_it() -> None:
    assert behind_endbr64(bytes.fromhex("4883ec0855"), "x86_64") is None
