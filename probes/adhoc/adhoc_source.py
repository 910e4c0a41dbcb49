# SPDX-License-Identifier: Apache-2.0
"""The source of an ad-hoc BCC probe: its uses of the kernel, and the types to compile against.

Pure but for `find_kernel` and `headers_from_btf`. Owns the rule that a probe which looks into
kernel structures is compiled against offsets of the running kernel or not at all: BCC takes
whatever headers it finds, and with those of another kernel it returns garbage and no error. Headers
of the running kernel's release are used unchanged; otherwise a tree is made from the kernel's BTF.
Without either, a probe can only read arguments of tracepoints, registers and user memory, and one
that does more is refused.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stoker.native.errors import BadRequest, NotSupported

SOURCE_BYTES_MAX = 256 * 1024
BTF = Path("/sys/kernel/btf/vmlinux")
MODULES = Path("/lib/modules")
BPFTOOL_S = 30.0
MODULE_PLACES = ("usr/lib/python3/dist-packages", "usr/lib/python3/site-packages")
"""The paths of BCC for the distributions' own interpreters, below `/`."""

Basis = Literal["headers", "btf", "types"]
"""The types a probe is compiled against: the running kernel's headers, its BTF, or none."""

Kind = Literal["uprobe", "uretprobe", "tracepoint", "raw_tracepoint", "usdt"]


@dataclass(frozen=True, slots=True)
class Attach:
    """A line `//@ uprobe PATH:SYMBOL FUNCTION` of the source, or one of another kind."""

    kind: Kind
    target: str
    function: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """The type sources of the machine. `headers` is set only for the running release."""

    release: str
    headers: Path | None
    headers_absent: str
    btf: Path | None
    btf_absent: str


# --- the source -----------------------------------------------------------------------------------

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
_DIRECTIVE = re.compile(r"^\s*//@\s*(\S+)\s+(\S+)\s+(\w+)\s*$", re.M)
_INCLUDE = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"\n]+)[>\"]", re.M)
_TAG = re.compile(r"\b(struct|union)\s+(\w+)\b(\s*\{)?")
_CALL = re.compile(r"\b(bpf_get_current_task\w*|bpf_probe_read(?!_user)\w*|bpf_core_read\w*)\s*\(")
_HIDDEN = re.compile(r"##|\b(k(?:ret)?probe__|kfunc__|kretfunc__|KFUNC_PROBE|KRETFUNC_PROBE)")
_HARMLESS_FILES = frozenset(
    {"uapi/linux/ptrace.h", "uapi/linux/bpf.h", "linux/types.h", "linux/version.h", "bcc/proto.h"}
)
_HARMLESS_TAGS = frozenset({"pt_regs", "bpf_raw_tracepoint_args", "bpf_perf_event_data"})
_KINDS: tuple[Kind, ...] = ("uprobe", "uretprobe", "tracepoint", "raw_tracepoint", "usdt")


def attaches(source: str) -> list[Attach]:
    """Parse the `//@` lines of a source; BadRequest for an invalid one."""
    found = []
    for kind, target, function in _DIRECTIVE.findall(source):
        known = next((each for each in _KINDS if each == kind), None)
        if known is None:
            raise BadRequest(f"//@ {kind}: there are {', '.join(_KINDS)}")
        if known != "raw_tracepoint" and ":" not in target:
            raise BadRequest(f"//@ {kind} {target}: the target is spelled A:B")
        found.append(Attach(known, target, function))
    if source.count("//@") != len(found):
        raise BadRequest("a line //@ has a kind, a target and a function, and nothing else")
    return found


def kernel_uses(source: str) -> list[str]:
    """Return the parts of the source that may read kernel structures; empty if there are none.

    Conservative: text that cannot be judged (token pasting, an unknown header) counts as a use.
    """
    text = _COMMENT.sub(" ", source)
    uses = [
        f"#include <{name}>" for name in _INCLUDE.findall(source) if name not in _HARMLESS_FILES
    ]
    own = {name for _, name, body in _TAG.findall(text) if body}
    uses += [
        f"{kind} {name}"
        for kind, name, _ in _TAG.findall(text)
        if name not in own and name not in _HARMLESS_TAGS and not name.startswith("tracepoint__")
    ]
    uses += [f"{name}()" for name in _CALL.findall(text)]
    uses += [name or "token pasting (##)" for name in _HIDDEN.findall(text)]
    return list(dict.fromkeys(uses))


def basis(source: str, kernel: Kernel) -> Basis:
    """Choose the types to compile against; NotSupported, with the reason, if none suffice."""
    if kernel.headers is not None:
        return "headers"
    if kernel.btf is not None:
        return "btf"
    uses = kernel_uses(source)
    if not uses:
        return "types"
    raise NotSupported(
        f"this probe looks into kernel structures ({', '.join(uses[:4])}), and nothing here tells"
        f" where their fields are: {kernel.headers_absent}; {kernel.btf_absent}. With the offsets"
        " of another kernel it would print garbage without an error",
        hint="install the headers of the running kernel, or read only arguments of tracepoints,"
        " registers (PT_REGS_PARM1 and so on) and user memory",
    )


# --- the machine ----------------------------------------------------------------------------------


def read_source(path: Path) -> str:
    """Read the probe's source; BadRequest if the file cannot be one."""
    try:
        data = path.read_bytes()
        if len(data) > SOURCE_BYTES_MAX:
            raise BadRequest(f"{path} has {len(data)} bytes, a probe at most {SOURCE_BYTES_MAX}")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: {error}") from None


def find_kernel(modules: Path = MODULES, btf: Path = BTF, release: str = "") -> Kernel:
    """Find headers and BTF of the running kernel on this machine."""
    release = release or os.uname().release
    headers, why = _matching(modules / release / "build", release)
    absent = ""
    if not btf.exists():
        absent = f"this kernel has no BTF ({btf})"
    elif shutil.which("bpftool") is None:
        absent = "its BTF cannot be read: bpftool is not installed"
    return Kernel(release, headers, why, None if absent else btf, absent)


def _matching(build: Path, release: str) -> tuple[Path | None, str]:
    """Return the headers if they name this release, else None."""
    try:
        text = (build / "include" / "generated" / "utsrelease.h").read_text()
    except OSError:
        return None, f"the headers of {release} are not installed ({build})"
    found = re.search(r'UTS_RELEASE\s+"([^"]*)"', text)
    theirs = found[1] if found else "an unknown release"
    if theirs != release:
        return None, f"the headers in {build} are of {theirs} and the kernel is {release}"
    return build, ""


def find_bcc(root: Path = Path("/")) -> tuple[Path, Path]:
    """Return the distribution's interpreter and its BCC module; NotSupported if one is missing."""
    python = root / "usr/bin/python3"
    for place in MODULE_PLACES:
        module = root / place / "bcc" / "__init__.py"
        if module.exists() and python.exists():
            return python, module
    raise NotSupported(
        "BCC is not installed for the distribution's Python (PyPI's `bcc` is another thing)",
        hint="apt-get install python3-bpfcc",
    )


# --- headers --------------------------------------------------------------------------------------

_RENAMED = re.compile(
    r"\b(__MAX_BPF|__BPF_|bpf_|BPF_|btf_|BTF_|xdp_|XDP_|sk_msg_md|sk_reuseport_md|__sk_buff"
    r"|SK_(?=DROP\b|PASS\b)|tcp_bpf|TCP_BPF_|sk_action)"
)
"""Names that BCC's own copy of linux/bpf.h defines as well."""
_BEFORE = (
    "typedef unsigned long long __u64;\ntypedef __u64 __attribute__((aligned(8))) __aligned_u64;\n"
)
_TYPES = """\
typedef unsigned char __u8; typedef signed char __s8;
typedef unsigned short __u16; typedef short __s16;
typedef unsigned int __u32; typedef int __s32; typedef long long __s64;
typedef __u8 u8; typedef __s8 s8; typedef __u16 u16; typedef __s16 s16;
typedef __u32 u32; typedef __s32 s32; typedef __u64 u64; typedef __s64 s64;
typedef __u16 __be16; typedef __u32 __be32; typedef __u64 __be64;
typedef __u16 __le16; typedef __u32 __le32; typedef __u32 __wsum; typedef __u16 __sum16;
typedef _Bool bool; enum { false, true };
typedef unsigned long size_t; typedef unsigned long uintptr_t; typedef long ssize_t;
typedef int pid_t; typedef unsigned int uid_t; typedef unsigned int gid_t; typedef u32 dev_t;
typedef unsigned short umode_t; typedef long long loff_t; typedef unsigned int gfp_t;
typedef unsigned long long sector_t;
"""
_REGISTERS = {
    "x86_64": "r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss",
}
_STUBS = (
    "linux/types.h",
    "linux/log2.h",
    "linux/bpf_common.h",
    "uapi/linux/ptrace.h",
    "uapi/linux/if_ether.h",
    "uapi/linux/if_packet.h",
    "asm/page.h",
)
_INCLUDE_KERNEL = "#include <stoker/kernel.h>\n"


def headers_from_btf(btf: Path) -> str:
    """Return the kernel's types as one C header; this takes about a second."""
    try:
        dump = subprocess.run(
            ["bpftool", "btf", "dump", "file", str(btf), "format", "c"],
            capture_output=True, check=True, timeout=BPFTOOL_S, text=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise NotSupported(f"the kernel's BTF cannot be read: {error}") from None
    lines = (line for line in dump.stdout.splitlines() if not line.startswith("#"))
    return _BEFORE + _RENAMED.sub(r"k_\1", "\n".join(lines)) + "\n"


def headers_of_types(machine: str) -> str:
    """Return the types for a probe that reads no kernel structure."""
    registers = _REGISTERS.get(machine)
    if registers is None:
        raise NotSupported(f"without BTF the registers of {machine} are not known here")
    fields = " ".join(f"unsigned long {name};" for name in registers.split())
    return f"{_BEFORE}{_TYPES}struct pt_regs {{ {fields} }};\n"


def header_files(kernel_header: str, source: str, release: str) -> Iterator[tuple[str, str]]:
    """Return name and text of each file of a tree that BCC accepts as kernel headers."""
    yield "include/stoker/kernel.h", f"#pragma once\n{kernel_header}"
    yield "include/uapi/linux/bpf.h", ""
    version = ", ".join(version_of(release))
    yield (
        "include/linux/version.h",
        "#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))\n"
        f"#define LINUX_VERSION_CODE KERNEL_VERSION({version})\n",
    )
    yield (
        "include/linux/kconfig.h",
        "#define __KERNEL__ 1\n#define CONFIG_BPF_SYSCALL 1\n#define CONFIG_64BIT 1\n",
    )
    taken = {"linux/version.h", "linux/kconfig.h", "uapi/linux/bpf.h", "bcc/proto.h"}
    asked = [name for name in _INCLUDE.findall(source) if ".." not in Path(name).parts]
    for name in dict.fromkeys((*_STUBS, *asked)):
        if name not in taken and not name.startswith("/"):
            yield f"include/{name}", _INCLUDE_KERNEL


def version_of(release: str) -> tuple[str, str, str]:
    """Parse a kernel release: `6.1.0-47-amd64` gives 6, 1, 0."""
    numbers = [*re.findall(r"\d+", release.partition("-")[0])[:3], "0", "0", "0"]
    return numbers[0], numbers[1], numbers[2]


def write_tree(folder: Path, files: Iterator[tuple[str, str]]) -> None:
    """Write the files below a folder that only its owner may write to."""
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# --- the target -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """The processes that a probe may observe; 0: no limit. `level` is the depth of the cgroup."""

    pid: int = 0
    cgroup: int = 0
    level: int = 0


def preamble(target: ProbeTarget) -> str:
    """Return the C code of `stoker_wanted()`, by which a probe skips other processes."""
    test = "1"
    if target.cgroup:
        test = f"bpf_get_current_ancestor_cgroup_id({target.level}) == {target.cgroup}ULL"
    elif target.pid:
        test = f"(bpf_get_current_pid_tgid() >> 32) == {target.pid}"
    head = "static inline __attribute__((always_inline)) int stoker_wanted(void)"
    return f"{head} {{ return {test}; }}\n#line 1\n"
