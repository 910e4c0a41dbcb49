# SPDX-License-Identifier: Apache-2.0
"""The BPF sources: records have one layout on both sides, and every program passes the verifier.

The loader attaches one form of each process hook; the other form is loaded here, so that it works
on the kernel that needs it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.probes.groups import require_root

ROOT = Path(__file__).parents[2]
BPF = ROOT / "probes/bpf"
SHARED = ROOT / "native/records"
RECORDS = (
    "span.h",
    "process.h",
    "thread.h",
    "counter.h",
    "tally.h",
    "notice.h",
    "opt_in.h",
    "call.h",
)
PROGRAMS = {
    "process": {f"on_{what}{form}" for what in ("exec", "fork", "exit") for form in ("", "_raw")},
    "sched": {"on_switch", "on_wakeup", "on_wakeup_new"},
    "fault": {"on_user_fault", "on_kernel_fault", "on_fault_handled"},
    "memory": {
        "on_reclaim_begin",
        "on_reclaim_end",
        "on_group_reclaim_begin",
        "on_group_reclaim_end",
        "on_reclaim_sleep",
    },
    "irq": {"on_handler_entry", "on_handler_exit", "on_softirq_entry", "on_softirq_exit"},
    "block": {f"on_request_{what}" for what in ("start", "done", "issue", "complete", "merge")},
    "network": {"on_retransmit"},
    "device": {"on_device"},
    "critical": {"on_victim", "on_signal", "on_killed_exit", "on_xid"},
    "power": {"on_frequency", "on_temperature", "on_trip", "on_cooling"},
    "gpu": {"on_fence_wait", "on_fence_waited"}
    | {f"on_gpu_{what}{of}" for what in ("queue", "run", "done") for of in ("", "_before_6_17")},
    "ioctl": {"on_call", "on_return"},
    "calls": {"on_entry", "on_return", "on_entry_multi", "on_return_multi"},
    "stack": {"on_block", "on_unblock"},
}
"""Every program of every noun, in all its forms."""
INCLUDES = [f"-I{ROOT / 'native'}", f"-I{BPF}", f"-I{BPF}/vmlinux/x86_64"]
STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Wpadded", "-Werror"]


def needs(tool: str) -> str:
    found = shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{tool} is not installed: eBPF objects are not built here")
    return found


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_has_no_hidden_padding_on_either_side(record: str, tmp_path: Path) -> None:
    source = tmp_path / "record.c"
    source.write_text(f'#include "records/{record}"\nint used;\n')
    for_host = ["cc", *STRICT, *INCLUDES, "-c", source, "-o", tmp_path / "host.o"]
    subprocess.run(for_host, check=True)
    source.write_text(f'#include "vmlinux.h"\n#include "records/{record}"\nint used;\n')
    for_bpf = [needs("clang"), "-target", "bpf", *STRICT, *INCLUDES, "-c", source]
    subprocess.run([*for_bpf, "-o", tmp_path / "bpf.o"], check=True)


def test_a_lost_field_is_caught(tmp_path: Path) -> None:
    without = re.sub(r"\t__u16 detail;.*\n", "", (SHARED / "span.h").read_text())
    (tmp_path / "span.h").write_text(without)
    source = tmp_path / "record.c"
    source.write_text('#include "span.h"\n')
    argv = ["cc", *STRICT, "-c", source, "-o", tmp_path / "host.o"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "padding" in done.stderr


@pytest.mark.needs_bpf
@pytest.mark.parametrize(("noun", "programs"), PROGRAMS.items())
def test_every_program_passes_the_verifier(noun: str, programs: set[str], tmp_path: Path) -> None:
    require_root()
    clang, bpftool = needs("clang"), needs("bpftool")
    compiled, linked = tmp_path / f"{noun}.o", tmp_path / f"{noun}.bpf.o"
    flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", *INCLUDES]
    subprocess.run([clang, *flags, "-c", BPF / f"{noun}.bpf.c", "-o", compiled], check=True)
    subprocess.run([bpftool, "gen", "object", linked, compiled], check=True)
    pinned = Path("/sys/fs/bpf") / f"stoker-test-{os.getpid()}-{noun}"
    try:
        subprocess.run([bpftool, "prog", "loadall", linked, pinned], check=True)
        assert {path.name for path in pinned.iterdir()} == programs
        shown = [bpftool, "-j", "prog", "show", "pinned", pinned / sorted(programs)[0]]
        listing = json.loads(subprocess.run(shown, check=True, capture_output=True).stdout)
        assert listing["gpl_compatible"] is True
    finally:
        shutil.rmtree(pinned, ignore_errors=True)
