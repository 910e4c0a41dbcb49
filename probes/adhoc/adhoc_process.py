# SPDX-License-Identifier: Apache-2.0
"""One ad-hoc probe in a process of its own, whose output is passed on line by line.

Guarantees that the probe ends with its time, with its caller or at a request, whichever is first,
that nothing stays attached, and that its output is bounded: dropped lines are counted.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from stoker.native.errors import Denied, NotSupported
from stoker.probes.adhoc import adhoc_source
from stoker.probes.adhoc.adhoc_source import Basis, Kernel, ProbeTarget

EVENTS_MAX = 100_000
"""The most lines of one run that are passed on; the rest is counted."""
EVENTS_PER_S_MAX = 5_000
SECONDS_MAX = 24 * 3600.0
END_S = 5.0
"""A probe that has not printed its tables and detached after this time is killed."""
MESSAGES_BYTES = 16 * 1024

Line = dict[str, Any]
"""One line of the probe; `kind` is attached, ready, event, print, lost, table or end."""


@dataclass(slots=True)
class Summary:
    """The end of a run. `failed` is the reason of a failure, `messages` the compiler's messages."""

    basis: Basis
    ready: bool = False
    events: int = 0
    unshown: int = 0
    """The number of events and prints beyond the limits."""
    lost: int = 0
    """The number of events that found the perf buffers full, as BCC counts them."""
    uncounted: list[str] = field(default_factory=list)
    """The number of ring buffers, whose losses BCC does not report."""
    failed: str = ""
    messages: str = ""


class AdhocRun:
    """One probe. Call `start`, then `serve` until it ends; any thread may call `stop`."""

    def __init__(
        self,
        source: str,
        target: ProbeTarget,
        *,
        seconds: float = 0.0,
        kernel: Kernel | None = None,
    ) -> None:
        """`seconds` 0: it runs until `stop`. Raises BadRequest, Denied or NotSupported."""
        self._attaches = adhoc_source.attaches(source)
        self._source, self._target, self._seconds = source, target, min(seconds, SECONDS_MAX)
        self._kernel = kernel or adhoc_source.find_kernel()
        self._basis = adhoc_source.basis(source, self._kernel)
        if os.geteuid() != 0:
            raise Denied("an ad-hoc probe sees every process of the machine: run it as root")
        self._python, self._bcc = adhoc_source.find_bcc()
        self._folder = tempfile.TemporaryDirectory(prefix="stoker-probe-")
        self._process: subprocess.Popen[str] | None = None
        self._messages = b""
        self.summary = Summary(self._basis)

    def start(self) -> None:
        """Begin to compile; `serve` reports when the probe is attached."""
        order = self._order()
        # The distribution's own environment, not that of a virtual one.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
        program = Path(__file__).with_name("adhoc_run.py")
        self._process = subprocess.Popen(
            [self._python, "-I", "-B", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment, start_new_session=True, cwd="/",
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stderr is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.close()
        self._reader = threading.Thread(
            target=self._keep_messages, args=(self._process.stderr,), daemon=True
        )
        self._reader.start()

    def serve(self, handle: Callable[[Line], None]) -> Summary:
        """Pass on its output until it ends; afterwards nothing stays attached."""
        process = self._process
        assert process is not None and process.stdout is not None
        allowance = _Allowance()
        try:
            for text in process.stdout:
                self._take(json.loads(text), allowance, handle)
        finally:
            self.close()
        self.summary.messages = self._messages.decode("utf-8", "replace")
        if not self.summary.ready and not self.summary.failed:
            self.summary.failed = f"the probe's process ended with {process.returncode}"
        return self.summary

    def stop(self) -> None:
        """End the probe now: it prints its tables, detaches and exits."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            killer = threading.Timer(END_S, self._process.kill)
            killer.daemon = True
            killer.start()

    def close(self) -> None:
        """End the process if it still runs."""
        if self._process is not None:
            if self._process.poll() is None:
                self.stop()
            self._process.wait()
            self._reader.join(1.0)
            assert self._process.stdout is not None and self._process.stderr is not None
            self._process.stdout.close()
            self._process.stderr.close()
        self._folder.cleanup()

    def _order(self) -> Line:
        return {
            "parent": os.getpid(),
            "bcc": str(self._bcc),
            "text": adhoc_source.preamble(self._target) + self._source,
            "attaches": [
                {"kind": each.kind, "target": each.target, "function": each.function}
                for each in self._attaches
            ],
            "pid": self._target.pid,
            "seconds": self._seconds,
            "printk": "bpf_trace_printk" in self._source,
            "kernel_source": self._headers(),
            "version_code": _version_code(self._kernel.release),
        }

    def _headers(self) -> str:
        """Return the folder of kernel headers for BCC; empty if BCC finds the right ones itself."""
        if self._basis == "headers":
            return ""
        if self._basis == "btf":
            assert self._kernel.btf is not None
            header = adhoc_source.headers_from_btf(self._kernel.btf)
        else:
            header = adhoc_source.headers_of_types(platform.machine())
        folder = Path(self._folder.name)
        adhoc_source.write_tree(
            folder, adhoc_source.header_files(header, self._source, self._kernel.release)
        )
        return str(folder)

    def _take(self, line: Line, allowance: _Allowance, handle: Callable[[Line], None]) -> None:
        summary = self.summary
        match line["kind"]:
            case "event" | "print":
                summary.events += 1
                if not allowance.one(time.monotonic()):
                    summary.unshown += 1
                    return
            case "lost":
                summary.lost += line["count"] or 1
            case "ready":
                summary.ready, summary.uncounted = True, line["uncounted"]
            case "failed":
                summary.failed = line["text"]
                return
        handle(line)

    def _keep_messages(self, pipe: IO[str]) -> None:
        """Keep the newest messages of BCC and its compiler."""
        for line in pipe:
            if not line.startswith(("WARNING: Linux version", "WARNING: Due to this")):
                self._messages = (self._messages + line.encode())[:MESSAGES_BYTES]


class _Allowance:
    """The lines that may still be passed on, in the run and in this second."""

    def __init__(self) -> None:
        self._left = EVENTS_MAX
        self._second, self._in_second = 0, 0

    def one(self, now_s: float) -> bool:
        if int(now_s) != self._second:
            self._second, self._in_second = int(now_s), 0
        if not self._left or self._in_second >= EVENTS_PER_S_MAX:
            return False
        self._left -= 1
        self._in_second += 1
        return True


def _version_code(release: str) -> int:
    major, minor, patch = map(int, adhoc_source.version_of(release))
    if major > 255 or minor > 255:
        raise NotSupported(f"kernel release {release} has no version code")
    return (major << 16) + (minor << 8) + min(patch, 255)
