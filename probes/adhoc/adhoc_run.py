# SPDX-License-Identifier: Apache-2.0
"""The process of one ad-hoc probe, run by the distribution's Python, which alone has BCC.

Imports nothing of stoker. Guarantees that it dies with its parent, that the kernel then detaches
everything, and that the losses of BCC and the kernel are reported.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1
DEBUG = "/sys/kernel/debug"
TRACING = DEBUG + "/tracing"
POLL_MS = 100
PAGES = 64
"""The pages of each CPU's perf buffer, a power of two as BCC requires."""
ROWS_MAX = 4096
"""The most rows of one table at the end; the rest is counted."""
TEXT_MAX = 400

_libc = ctypes.CDLL(None, use_errno=True)
_lock = threading.Lock()
_lines = sys.stdout
"""The output of `say`; `take_stdout` makes it a separate descriptor."""


def say(kind: str, **fields: Any) -> None:
    """Write one line to the parent; exit if the parent is gone."""
    with _lock:
        try:
            _lines.write(json.dumps({"kind": kind, **fields}) + "\n")
            _lines.flush()
        except OSError:
            os._exit(1)


def take_stdout() -> None:
    """Redirect stdout, on which BCC prints in Python and in C, to stderr."""
    global _lines  # noqa: PLW0603  # one process, one pipe
    _lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)


def checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def die_with_parent(parent: int) -> None:
    checked(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        sys.exit(1)


def private_tracing() -> None:
    """Mount tracefs, for this process alone, at the one place where BCC looks for it."""
    if Path(TRACING, "events").exists():
        return
    checked(_libc.unshare(CLONE_NEWNS), "unshare")
    checked(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "make mounts private")
    checked(_libc.mount(b"tmpfs", DEBUG.encode(), b"tmpfs", 0, b"size=64k"), f"mount {DEBUG}")
    Path(TRACING).mkdir()
    checked(_libc.mount(b"tracefs", TRACING.encode(), b"tracefs", 0, None), "mount tracefs")


def load_bcc(path: str) -> Any:
    """Load BCC by its file, so that no other package of the distribution is imported."""
    sys.dont_write_bytecode = True
    folder = str(Path(path).parent)
    spec = importlib.util.spec_from_file_location("bcc", path, submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules["bcc"] = module
    spec.loader.exec_module(module)
    return module


def usdt_contexts(bcc: Any, order: dict[str, Any]) -> list[Any]:
    contexts = []
    for each in order["attaches"]:
        if each["kind"] == "usdt":
            path, name = each["target"].rsplit(":", 1)
            at = {"pid": order["pid"]} if order["pid"] else {"path": path}
            context = bcc.USDT(**at)
            context.enable_probe(probe=name, fn_name=each["function"])
            contexts.append(context)
    return contexts


def attach(program: Any, order: dict[str, Any]) -> None:
    """Attach the named functions; BCC attaches tracepoints by its own macros."""
    for each in order["attaches"]:
        kind, target, function = each["kind"], each["target"], each["function"]
        if kind in ("uprobe", "uretprobe"):
            path, symbol = target.rsplit(":", 1)
            call = program.attach_uprobe if kind == "uprobe" else program.attach_uretprobe
            call(name=path, sym=symbol, fn_name=function, pid=order["pid"] or -1)
        elif kind == "tracepoint":
            program.attach_tracepoint(tp=target, fn_name=function)
        elif kind == "raw_tracepoint":
            program.attach_raw_tracepoint(tp=target, fn_name=function)
        say("attached", what=f"{kind} {target}")


def plain(value: Any) -> Any:
    """Convert a ctypes value for JSON."""
    if isinstance(value, bytes):
        return value.split(b"\0")[0].decode("utf-8", "replace")[:TEXT_MAX]
    if isinstance(value, ctypes.Array):
        return [plain(each) for each in value[:64]]
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    return getattr(value, "value", value)


def named_tables(program: Any, bcc: Any) -> list[tuple[str, Any]]:
    """Return every table of the program; BCC makes the Python object of one on request."""
    lib = bcc.libbcc.lib
    lib.bpf_num_tables.argtypes = [ctypes.c_void_p]
    lib.bpf_num_tables.restype = ctypes.c_size_t
    lib.bpf_table_name.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    lib.bpf_table_name.restype = ctypes.c_char_p
    names = [
        lib.bpf_table_name(program.module, i) for i in range(lib.bpf_num_tables(program.module))
    ]
    return [(name.decode(), program[name]) for name in names]


def buffers(program: Any, bcc: Any) -> tuple[int, list[str]]:
    """Open the event buffers; return their number, and that of those without a loss count."""
    opened = 0
    silent: list[str] = []
    for text, table in named_tables(program, bcc):
        if type(table).__name__ == "PerfEventArray":

            def event(cpu: int, data: Any, size: int, table: Any = table, text: str = text) -> None:
                say("event", table=text, cpu=cpu, data=plain(table.event(data)))

            def lost(count: int, text: str = text) -> None:
                say("lost", table=text, count=count)

            table.open_perf_buffer(event, page_cnt=PAGES, lost_cb=lost)
            opened += 1
        elif type(table).__name__ == "RingBuf":

            def ring(ctx: Any, data: Any, size: int, table: Any = table, text: str = text) -> None:
                say("event", table=text, data=plain(table.event(data)))

            table.open_ring_buffer(ring)
            silent.append(text)
    return opened, silent


def read_prints(stop: threading.Event) -> None:
    """Print the lines of bpf_trace_printk; the machine shares the file, so others may appear."""
    with Path(TRACING, "trace_pipe").open("rb", buffering=0) as pipe:
        os.set_blocking(pipe.fileno(), False)
        rest = b""
        while not stop.is_set():
            if not select.select([pipe], [], [], 0.2)[0]:
                continue
            try:
                data = pipe.read(65536)
            except BlockingIOError:
                continue
            *lines, rest = (rest + (data or b"")).split(b"\n")
            for line in lines:
                if b"LOST" in line and b"EVENTS" in line:
                    say(
                        "lost", table="trace_pipe", count=None, text=line.decode("utf-8", "replace")
                    )
                elif b"bpf_trace_printk" in line:
                    printed = line.split(b"bpf_trace_printk:", 1)[1].strip()
                    say("print", text=printed.decode("utf-8", "replace")[:TEXT_MAX])


def tables(program: Any, bcc: Any) -> None:
    """Print the contents of the maps at the end."""
    for name, table in named_tables(program, bcc):
        if type(table).__name__ in ("PerfEventArray", "RingBuf", "ProgArray", "StackTrace"):
            continue
        rows: list[Any] = []
        left = 0
        try:
            for key, value in table.items():
                if len(rows) >= ROWS_MAX:
                    left += 1
                    continue
                cells = plain(value)
                if isinstance(value, (list, tuple)):  # per CPU
                    cells = [plain(each) for each in value]
                if not (isinstance(table, bcc.table.ArrayBase) and not _any(cells)):
                    rows.append([plain(key), cells])
        except (AttributeError, TypeError, KeyError) as error:
            say("table", table=name, rows=[], left=0, absent=str(error))
            continue
        say("table", table=name, rows=rows, left=left)


def _any(cells: Any) -> bool:
    return any(cells) if isinstance(cells, list) else bool(cells)


def poll(program: Any, opened: int, silent: list[str], timeout_ms: int) -> None:
    if opened:
        program.perf_buffer_poll(timeout=timeout_ms)
    if silent:
        program.ring_buffer_poll(timeout=0 if opened else timeout_ms)


def main() -> None:
    order = json.loads(sys.stdin.readline())
    die_with_parent(order["parent"])
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    private_tracing()
    if order["kernel_source"]:
        os.environ["BCC_KERNEL_SOURCE"] = order["kernel_source"]
        os.environ["BCC_LINUX_VERSION_CODE"] = str(order["version_code"])
    bcc = load_bcc(order["bcc"])
    program = bcc.BPF(text=order["text"], usdt_contexts=usdt_contexts(bcc, order))
    attach(program, order)
    opened, silent = buffers(program, bcc)
    reader = None
    if order["printk"]:
        reader = threading.Thread(target=read_prints, args=(stop,), daemon=True)
        reader.start()
    say("ready", functions=len(program.funcs), uncounted=silent)
    ends = time.monotonic() + order["seconds"] if order["seconds"] else None
    while not stop.is_set() and (ends is None or time.monotonic() < ends):
        poll(program, opened, silent, POLL_MS)
        if not opened and not silent:
            stop.wait(POLL_MS / 1000)
    poll(program, opened, silent, 0)
    stop.set()
    if reader is not None:
        reader.join(1)
    tables(program, bcc)
    program.cleanup()
    say("end")
    os._exit(0)  # BCC's destructors report errors for objects that are already gone


if __name__ == "__main__":
    take_stdout()
    try:
        main()
    except Exception as error:
        say("failed", text=f"{type(error).__name__}: {error}")
        sys.exit(1)
