# SPDX-License-Identifier: Apache-2.0
"""Where Xids are heard from, said in one sentence; what may be read, tried."""

from __future__ import annotations

from pathlib import Path

from stoker.agent.health.sources import KERNEL_LOG, NVML, Source, kernel_log, sentence, tracepoint


def test_what_is_heard_comes_first_and_each_other_has_its_reason() -> None:
    told = (Source("a", "no driver"), Source("b"), Source("c"))
    assert sentence(told) == "Xids are heard from b and c, not from a (no driver)"
    nothing = (Source(KERNEL_LOG, "x"), Source(NVML, "y"))
    assert sentence(nothing) == (
        "Xids are heard from nowhere, not from the kernel's log (x), not from NVML's events (y)"
    )


def test_a_log_that_may_not_be_read_is_said_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    assert kernel_log(path).why == f"{path}: No such file or directory"
    path.touch()
    assert kernel_log(path) == Source(KERNEL_LOG)


def test_a_tracepoint_is_there_if_the_kernel_lists_it(tmp_path: Path) -> None:
    assert "nvidia_dev_xid" in tracepoint([tmp_path, tmp_path / "none"]).why
    (tmp_path / "nvidia/nvidia_dev_xid").mkdir(parents=True)
    assert tracepoint([tmp_path / "none", tmp_path]).why == ""
