# SPDX-License-Identifier: Apache-2.0
"""Judging an ad-hoc probe by its text: kernel types it needs, and types it is compiled against."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.native.errors import BadRequest, NotSupported
from stoker.probes.adhoc import adhoc_source
from stoker.probes.adhoc.adhoc_source import Kernel

ARGUMENTS = """
#include <uapi/linux/ptrace.h>
/* struct task_struct in a comment, and "struct sock" in a text */
struct hit { u32 pid; u64 bytes; };
BPF_PERF_OUTPUT(events);
TRACEPOINT_PROBE(sched, sched_switch) { u32 pid = args->next_pid; return 0; }
int on_call(struct pt_regs *ctx) {
    struct hit hit = {.pid = 1, .bytes = PT_REGS_PARM1(ctx)};
    char text[16];
    bpf_probe_read_user(text, sizeof(text), (void *)PT_REGS_PARM2(ctx));
    bpf_trace_printk("struct sock");
    return 0;
}
"""
BARE = Kernel("6.1.0", None, "no headers", None, "no BTF")


def test_arguments_registers_and_user_memory_need_nothing_of_the_kernel() -> None:
    assert adhoc_source.kernel_uses(ARGUMENTS) == []
    assert adhoc_source.basis(ARGUMENTS, BARE) == "types"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("#include <linux/sched.h>", "#include <linux/sched.h>"),
        ("int f(void *c) { struct task_struct *t = 0; return t->pid; }", "struct task_struct"),
        ("int f(void *c) { union thread_union *t = 0; }", "union thread_union"),
        ("int f(void *c) { u64 t = bpf_get_current_task(); }", "bpf_get_current_task()"),
        ("int f(void *c) { bpf_probe_read_kernel(c, 8, c + 1234); }", "bpf_probe_read_kernel()"),
        ("int f(void *c) { bpf_probe_read(c, 8, c); }", "bpf_probe_read()"),
        ("int kprobe__do_exit(struct pt_regs *ctx) { return 0; }", "kprobe__"),
        ("#define S(a, b) a##b\nS(str, uct) x;", "token pasting (##)"),
        ("KFUNC_PROBE(do_exit, int code) { return 0; }", "KFUNC_PROBE"),
    ],
)
def test_what_may_look_into_the_kernel_is_named_and_refused(text: str, named: str) -> None:
    assert named in adhoc_source.kernel_uses(text)
    with pytest.raises(NotSupported, match="no headers; no BTF") as refused:
        adhoc_source.basis(text, BARE)
    assert named in refused.value.message


def test_a_structure_of_its_own_is_its_own() -> None:
    assert adhoc_source.kernel_uses("struct sock { int a; }; struct sock *s;") == []
    assert adhoc_source.kernel_uses("struct sock *s;") == ["struct sock"]


def test_headers_count_only_when_they_are_of_the_running_kernel(tmp_path: Path) -> None:
    generated = tmp_path / "6.1.0" / "build" / "include" / "generated"
    generated.mkdir(parents=True)
    absent = tmp_path / "btf"
    named = generated / "utsrelease.h"
    named.write_text('#define UTS_RELEASE "5.10.0-other"\n')
    found = adhoc_source.find_kernel(tmp_path, absent, "6.1.0")
    assert found.headers is None and "are of 5.10.0-other" in found.headers_absent
    with pytest.raises(NotSupported, match="garbage"):
        adhoc_source.basis("struct sock *s;", found)
    named.write_text('#define UTS_RELEASE "6.1.0"\n')
    found = adhoc_source.find_kernel(tmp_path, absent, "6.1.0")
    assert found.headers == tmp_path / "6.1.0" / "build"
    assert adhoc_source.basis("struct sock *s;", found) == "headers"


def test_without_headers_the_btf_of_the_running_kernel_gives_the_offsets(tmp_path: Path) -> None:
    btf = tmp_path / "btf"
    btf.touch()
    found = adhoc_source.find_kernel(tmp_path, btf, "6.1.0")
    assert "are not installed" in found.headers_absent
    assert adhoc_source.basis("struct sock *s;", found) == "btf"


def test_without_bpftool_there_is_no_btf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    btf = tmp_path / "btf"
    btf.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    found = adhoc_source.find_kernel(tmp_path, btf, "6.1.0")
    assert found.btf is None and "bpftool" in found.btf_absent


def test_attach_lines() -> None:
    found = adhoc_source.attaches(
        "//@ uprobe c:malloc on_malloc\n  //@ raw_tracepoint sched_switch f\n"
    )
    assert [(each.kind, each.target, each.function) for each in found] == [
        ("uprobe", "c:malloc", "on_malloc"),
        ("raw_tracepoint", "sched_switch", "f"),
    ]
    assert adhoc_source.attaches("// a comment\n") == []


@pytest.mark.parametrize(
    "line", ["//@ kprobe a:b f", "//@ uprobe malloc f", "//@ uprobe c:malloc", "//@"]
)
def test_an_attach_line_that_means_nothing_is_refused(line: str) -> None:
    with pytest.raises(BadRequest):
        adhoc_source.attaches(line)


def test_bcc_is_the_distributions(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="PyPI") as refused:
        adhoc_source.find_bcc(tmp_path)
    assert "python3-bpfcc" in refused.value.hint
    module = tmp_path / "usr/lib/python3/dist-packages/bcc/__init__.py"
    module.parent.mkdir(parents=True)
    module.touch()
    python = tmp_path / "usr/bin/python3"
    python.parent.mkdir(parents=True)
    python.touch()
    assert adhoc_source.find_bcc(tmp_path) == (python, module)


def test_a_source_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        adhoc_source.read_source(tmp_path / "absent.c")
    path = tmp_path / "large.c"
    path.write_bytes(b" " * (adhoc_source.SOURCE_BYTES_MAX + 1))
    with pytest.raises(BadRequest, match="at most"):
        adhoc_source.read_source(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadRequest):
        adhoc_source.read_source(path)


def test_every_header_a_probe_names_is_there_and_none_lies_outside() -> None:
    source = "#include <linux/sched.h>\n#include <../../etc/x.h>\n#include </etc/y.h>\n"
    names = [name for name, _ in adhoc_source.header_files("", source, "6.18.44-x")]
    assert "include/linux/sched.h" in names
    assert all(name.startswith("include/") and ".." not in name for name in names)
    assert "include//etc/y.h" not in names


def test_release_numbers() -> None:
    assert adhoc_source.version_of("6.1.0-47-amd64") == ("6", "1", "0")
    assert adhoc_source.version_of("7.0") == ("7", "0", "0")
