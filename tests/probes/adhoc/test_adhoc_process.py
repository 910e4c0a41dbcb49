# SPDX-License-Identifier: Apache-2.0
"""Real BCC probes: exact counts of a known workload, parents by the kernel's own structures,
losses told, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.native.errors import Denied, NotSupported
from stoker.probes.adhoc import adhoc_process, adhoc_source
from stoker.probes.adhoc.adhoc_process import AdhocRun, Line, Summary
from stoker.probes.adhoc.adhoc_source import ProbeTarget

pytestmark = [pytest.mark.needs_bpf, pytest.mark.needs_root]

CALLS = 997
LIBRARY = "unsigned probed(unsigned n) { return n + 1; }"
CALLER = """
#include <unistd.h>
unsigned probed(unsigned n);
int main(void) { char go; unsigned n = 0; if (read(0, &go, 1) != 1) return 1;
  for (int i = 0; i < 997; i++) n += probed(3 * i);
  if (write(1, "d", 1) != 1) return 1;
  if (read(0, &go, 1) == 1) n += probed(1);
  return n == 0; }
"""
COUNTS = """
#include <uapi/linux/ptrace.h>
//@ uprobe {library}:probed on_call
BPF_HASH(calls, u32, u64);
BPF_PERF_OUTPUT(events);
struct hit {{ u32 pid; u32 n; char comm[16]; }};
int on_call(struct pt_regs *ctx) {{
    if (!stoker_wanted()) return 0;
    struct hit hit = {{.pid = bpf_get_current_pid_tgid() >> 32, .n = PT_REGS_PARM1(ctx)}};
    bpf_get_current_comm(hit.comm, sizeof(hit.comm));
    calls.increment(hit.pid);
    events.perf_submit(ctx, &hit, sizeof(hit));
    return 0;
}}
"""
PARENT = """
#include <linux/sched.h>
BPF_HASH(parents, u32, u32);
TRACEPOINT_PROBE(sched, sched_process_exit) {
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    u32 pid = task->tgid, parent = task->real_parent->tgid;
    if (stoker_wanted()) parents.update(&pid, &parent);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("probed")
    library, caller = folder / "libprobed.so", folder / "caller"
    (folder / "library.c").write_text(LIBRARY)
    (folder / "caller.c").write_text(CALLER)
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", "-o", library, folder / "library.c"], check=True
    )
    subprocess.run(
        ["gcc", "-o", caller, folder / "caller.c", library, f"-Wl,-rpath,{folder}"], check=True
    )
    return library, caller


def served(run: AdhocRun, ready: Callable[[], None]) -> tuple[list[Line], Summary]:
    """Everything a run says; `ready` is called once it is attached."""
    lines: list[Line] = []

    def handle(line: Line) -> None:
        lines.append(line)
        if line["kind"] == "ready":
            threading.Thread(target=ready).start()

    run.start()
    return lines, run.serve(handle)


def caller_of(program: Path) -> subprocess.Popen[bytes]:
    """Start it on one CPU: each has a buffer of its own, and tells losses with its next event."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
    return process


def let_go(process: subprocess.Popen[bytes], run: AdhocRun) -> Callable[[], None]:
    def go() -> None:
        process.communicate(b"x")
        run.stop()

    return go


@pytest.mark.parametrize("bare", [False, True], ids=["btf", "types"])
def test_calls_of_a_library_are_counted_to_the_last(program: tuple[Path, Path], bare: bool) -> None:
    library, caller = program
    process = caller_of(caller)
    kernel = adhoc_source.find_kernel()
    if bare:
        kernel = replace(kernel, headers=None, btf=None, btf_absent="none here")
    run = AdhocRun(
        COUNTS.format(library=library), ProbeTarget(pid=process.pid), seconds=60, kernel=kernel
    )
    lines, summary = served(run, let_go(process, run))
    assert summary.failed == "", summary.messages
    assert summary.basis == ("types" if bare else "btf") or kernel.headers is not None
    (calls,) = [line["rows"] for line in lines if line["kind"] == "table"]
    assert calls == [[process.pid, CALLS]]
    events = [line["data"] for line in lines if line["kind"] == "event"]
    assert summary.events == CALLS - summary.lost
    assert [event["n"] for event in events] == [3 * i for i in range(CALLS)][: len(events)]
    assert {event["comm"] for event in events} == {"caller"}


def test_kernel_structures_are_read_at_the_offsets_of_this_kernel(
    program: tuple[Path, Path],
) -> None:
    process = caller_of(program[1])
    run = AdhocRun(PARENT, ProbeTarget(pid=process.pid), seconds=60)
    lines, summary = served(run, let_go(process, run))
    assert summary.failed == "", summary.messages
    (parents,) = [line["rows"] for line in lines if line["kind"] == "table"]
    assert parents == [[process.pid, os.getpid()]]


def test_what_cannot_be_read_rightly_is_refused_before_anything_is_loaded() -> None:
    kernel = replace(adhoc_source.find_kernel(), headers=None, btf=None, btf_absent="none here")
    with pytest.raises(NotSupported, match="task_struct"):
        AdhocRun(PARENT, ProbeTarget(), kernel=kernel)


def test_a_full_buffer_tells_what_it_lost(program: tuple[Path, Path]) -> None:
    """More than the buffers hold, at once: every call is an event, or lost and counted. The kernel
    tells a loss with the next event that fits, so there is one more call when the buffer is empty.
    """
    process = caller_of(program[1])
    flood = """
    //@ uprobe LIBRARY:probed on_call
    BPF_PERF_OUTPUT(events);
    struct hit { char x[400]; };
    int on_call(struct pt_regs *ctx) {
        struct hit hit = {};
        #pragma unroll
        for (int i = 0; i < 32; i++) events.perf_submit(ctx, &hit, sizeof(hit));
        return 0;
    }
    """.replace("LIBRARY", str(program[0]))
    run = AdhocRun(flood, ProbeTarget(pid=process.pid), seconds=60)

    def go() -> None:
        assert process.stdin is not None and process.stdout is not None
        reader = run._process
        assert reader is not None
        reader.send_signal(signal.SIGSTOP)  # a reader that keeps up loses nothing
        process.stdin.write(b"x")
        process.stdin.flush()
        process.stdout.read(1)
        reader.send_signal(signal.SIGCONT)
        seen = -1
        while seen != run.summary.events:  # until the buffer is empty
            seen = run.summary.events
            time.sleep(1.0)
        process.communicate(b"y")
        run.stop()

    _, summary = served(run, go)
    assert summary.failed == "", summary.messages
    assert summary.lost > 0
    assert summary.events + summary.lost == 32 * (CALLS + 1)


def test_a_source_that_does_not_compile_says_where() -> None:
    run = AdhocRun("int f(void *ctx) { return undefined_here; }", ProbeTarget())
    _, summary = served(run, lambda: None)
    assert not summary.ready and "compile" in summary.failed
    assert "undefined_here" in summary.messages


def test_time_ends_it_and_nothing_is_left(tmp_path: Path) -> None:
    before = set(Path("/tmp").glob("stoker-probe-*"))
    run = AdhocRun(
        "BPF_ARRAY(seen, u64, 1);\nint f(void *ctx) { return 0; }", ProbeTarget(), seconds=0.2
    )
    lines, summary = served(run, lambda: None)
    assert summary.failed == "", summary.messages
    assert lines[-1]["kind"] == "end"
    assert set(Path("/tmp").glob("stoker-probe-*")) == before


def test_output_beyond_its_limits_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adhoc_process, "EVENTS_MAX", 7)
    allowance = adhoc_process._Allowance()
    assert [allowance.one(0.0) for _ in range(9)].count(True) == 7
    monkeypatch.setattr(adhoc_process, "EVENTS_MAX", 100)
    monkeypatch.setattr(adhoc_process, "EVENTS_PER_S_MAX", 3)
    allowance = adhoc_process._Allowance()
    assert [allowance.one(0.1) for _ in range(5)] == [True] * 3 + [False] * 2
    assert allowance.one(1.1)


def test_only_root_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Denied, match="root"):
        AdhocRun("int f(void *ctx) { return 0; }", ProbeTarget())
