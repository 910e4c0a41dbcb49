# SPDX-License-Identifier: Apache-2.0
"""Sites of a library, and what becomes of them under a budget."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from stoker.probes.calls.call_targets import TARGETS, CallTarget
from stoker.probes.calls.elf import ElfFile
from stoker.probes.calls.probe_sites import (
    DUTY_STEPS_PPM,
    Call,
    choose,
    find_calls,
    share_ppm,
    share_step,
)
from stoker.probes.calls.trap_cost import ELSEWHERE, TrapCosts
from tests.probes.gpu_jobs import compile_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ElfFile:
    path = compile_library(tmp_path_factory.mktemp("sites") / "libcuda.so.1")
    return ElfFile(os.open(path, os.O_RDONLY), str(path))


def cuda(symbol: str, rate: int = 1000, inner: tuple[str, ...] = (), usdt: str = "") -> CallTarget:
    return CallTarget(f"cuda.{symbol}", "libcuda.so", symbol, rate, inner, usdt)


def find(library: ElfFile, target: CallTarget) -> Call:
    (call,) = find_calls(library, [target])
    assert call.reason
    return call


def offset(library: ElfFile, name: str) -> int:
    return library.offset_of(library.symbols(name)[0].address)


def test_every_form_of_a_call_is_a_site_and_an_alias_is_not_counted_twice(library: ElfFile) -> None:
    launch = find(library, cuda("cuLaunchKernel"))
    assert {(site.symbol, site.trap) for site in launch.sites} == {
        ("cuLaunchKernel", "push"),
        ("cuLaunchKernel_ptsz", "push"),
    }
    (alloc,) = find(library, cuda("cuMemAlloc")).sites
    assert (alloc.trap, alloc.offset) == ("nop5", offset(library, "cuMemAlloc_v2"))


def test_a_site_behind_its_endbr64_says_so(library: ElfFile) -> None:
    (site,) = find(library, cuda("cuStreamSynchronize")).sites
    assert (site.trap, site.offset) == ("push", offset(library, "cuStreamSynchronize") + 4)
    assert "behind its endbr64" in site.moved
    assert site.code.startswith("55")
    (stepped,) = find(library, cuda("cuCtxSynchronize")).sites
    assert (stepped.trap, stepped.moved) == ("endbr64", "")


def test_an_inner_function_stands_in_for_a_dear_one(library: ElfFile) -> None:
    outer = cuda("cuModuleLoadData", inner=("nowhere", "cuMemFree_v2", "cuLaunchKernel"))
    (site,) = find(library, outer).sites
    assert (site.offset, site.trap) == (offset(library, "cuLaunchKernel"), "push")
    assert "cuLaunchKernel" in site.moved
    (alone,) = find(library, cuda("cuModuleLoadData")).sites
    assert alone.trap == "other"


def test_a_probe_of_the_author_is_preferred(library: ElfFile) -> None:
    (site,) = find(library, cuda("cuLaunchKernel", usdt="fake:launch")).sites
    assert (site.trap, site.entry_only, site.symbol) == ("nop1", True, "fake:launch")
    assert site.semaphore == library.offset_of(library.usdt[0].semaphore)
    assert len(find(library, cuda("cuLaunchKernel", usdt="fake:none")).sites) == 2


def test_what_cannot_be_probed_says_why(library: ElfFile) -> None:
    chosen = find(library, cuda("cuMemFree"))
    assert (chosen.state, "IFUNC" in chosen.reason) == ("refused", True)
    missing = find(library, cuda("cuNowhere"))
    assert (missing.state, "no function cuNowhere" in missing.reason) == ("absent", True)


def test_a_damaged_library_has_an_answer_for_each(library: ElfFile) -> None:
    fd = os.memfd_create("damaged")
    with open("/proc/self/exe", "rb") as program:  # noqa: PTH123
        os.write(fd, program.read(64) + bytes(4000))
    calls = find_calls(ElfFile(fd, "libcuda.so.1"), TARGETS)
    assert [call.target for call in calls] == list(TARGETS)
    assert all(call.reason and call.state in ("unknown", "absent") for call in calls)
    os.close(fd)


def test_all_is_attached_that_fits(library: ElfFile) -> None:
    calls = find_calls(library, [cuda("cuLaunchKernel", 1000), cuda("cuModuleLoadData", 1)])
    decisions = choose(calls, 5_000, ELSEWHERE)
    assert [d.state for d in decisions] == ["attached", "attached"]
    assert [d.hit_ns for d in decisions] == [791, 14_300]
    assert [d.duty_ppm for d in decisions] == [1_000_000, 1_000_000]


def test_what_does_not_fit_is_sampled_or_off_and_the_cheapest_come_first(library: ElfFile) -> None:
    names = ["cuModuleLoadData", "cuCtxSynchronize", "cuLaunchKernel"]
    calls = find_calls(library, [cuda(name) for name in names])
    rates = {"cuda.cuModuleLoadData": 1e6, "cuda.cuCtxSynchronize": 1e3, "cuda.cuLaunchKernel": 1e3}
    decisions = {d.id: d for d in choose(calls, 5_000, ELSEWHERE, rates)}
    assert decisions["cuda.cuLaunchKernel"].state == "attached"
    sampled = decisions["cuda.cuCtxSynchronize"]
    assert (sampled.state, sampled.duty_ppm) == ("sampled", 200_000)
    assert "endbr64: 14300 ns a hit" in sampled.reason
    gone = decisions["cuda.cuModuleLoadData"]
    assert (gone.state, gone.duty_ppm) == ("off", 0)
    assert gone.reason.endswith("off for cost")
    spent = sum(share_ppm(d) * d.duty_ppm / 1e6 for d in decisions.values())
    assert spent <= 5_000


def test_what_is_attached_takes_room_from_the_rest(library: ElfFile) -> None:
    calls = find_calls(library, [cuda("cuModuleLoadData", 300), cuda("cuCtxSynchronize", 300)])
    decisions = choose(calls, 5_000, ELSEWHERE)
    assert [d.duty_ppm for d in decisions] == [1_000_000, 100_000]


def test_an_unknown_price_is_sampled_shortly(library: ElfFile) -> None:
    calls = find_calls(library, [cuda("cuLaunchKernel")])
    (decision,) = choose(calls, 5_000, TrapCosts({"nop5": 500}, {}, "here"))
    assert (decision.state, decision.duty_ppm) == ("sampled", DUTY_STEPS_PPM[-1])
    assert "not known" in decision.reason
    arm = replace(calls[0], sites=tuple(replace(s, trap="unknown") for s in calls[0].sites))
    assert choose([arm], 5_000, ELSEWHERE)[0].state == "sampled"


def test_windows_have_few_lengths() -> None:
    assert [
        share_step(each) for each in (2_000_000, 1_000_000, 999_999, 60_000, 10_000, 9_999, 0)
    ] == [
        1_000_000,
        1_000_000,
        500_000,
        50_000,
        10_000,
        0,
        0,
    ]


def test_ids_are_unique_and_stay() -> None:
    ids = [target.id for target in TARGETS]
    assert len(ids) == len(set(ids))
    assert ids[:2] == ["cuda.cuLaunchKernel", "cuda.cuLaunchKernelEx"]
    assert {"cuda.cuGraphLaunch", "cuda.cuMemAlloc", "nccl.ncclAllReduce"} <= set(ids)
