# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the live view: frames and keys on a real terminal, beside Textual's DataTable.

This process is the terminal: it drains the output of the program, types keys, and notes when each
byte came. Afterwards pyte parses the output, and frames drawn by lot are compared with what the
program meant to show, cell by cell: character, colour and ground.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import random
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stoker.native.errors import NotSupported, StokerError
from stoker.tui.bench import top_cluster
from stoker.tui.bench.top_cluster import ClusterSize
from stoker.tui.bench.top_programs import FRAMES, FrameLog
from stoker.tui.top.theme import THEMES

COLUMNS, ROWS = 160, 50
PROGRAMS = ("ours", "datatable")
FRAMES_COMPARED = 100
KEY_EVERY_S = 0.15
START_S = 120.0
"""The longest time until the first frame, and from the last key to the end."""
WARM_FRAMES = 3
"""The first frames, which paint everything for the first time."""
DOWN, UP, PAGE_DOWN, PAGE_UP, HOME = "\x1b[B", "\x1b[A", "\x1b[6~", "\x1b[5~", "\x1b[H"
MOVES = (DOWN, DOWN, PAGE_DOWN, UP, DOWN, PAGE_DOWN, UP, PAGE_UP, DOWN, DOWN, HOME)
"""The keys that both programs get again and again; each of them changes the screen."""
VIEWS = (":devices\r", ":jobs\r", ":users\r", ":cluster\r")
"""The commands that ours gets as well, one after each round of these."""


class TopLoad(NamedTuple):
    """The cluster that is shown, how often all of it changes, and for how long."""

    size: ClusterSize
    hertz: float
    seconds: float
    seed: int = 1


class Recording(NamedTuple):
    """A run of one program: its output, when it came, when keys went, and its own notes."""

    text: str
    arrivals: list[tuple[int, float]]
    """(characters so far, CLOCK_MONOTONIC seconds), in order."""
    keys: list[float]
    frames: list[FrameLog]
    skipped: int
    rss_mb: float
    output_bytes: int


def measure(load: TopLoad, say: Callable[[str], None]) -> dict[str, Any]:
    """Run both programs, one after the other, and return their figures."""
    rows = []
    for program in PROGRAMS:
        say(f"{program}: {load.seconds:g} s")
        recording = record(program, load)
        row: dict[str, Any] = {"program": program, **figures(recording)}
        if program == "ours":
            say(f"comparing {FRAMES_COMPARED} frames cell by cell")
            row |= compare(recording, load.seed)
        rows.append(row)
    ours, peer = rows
    size = load.size
    return {
        "nodes": size.nodes, "devices": size.nodes * size.devices, "jobs": size.jobs,
        "hertz": load.hertz, "columns": COLUMNS, "rows_of_screen": ROWS,
        "load_1min": os.getloadavg()[0],
        **{name: ours[name] for name in ours if name != "program"},
        "frame_ratio": ours["frame_p95_ms"] / peer["frame_p95_ms"],
        "key_ratio": ours["key_p95_ms"] / peer["key_p95_ms"],
        "programs": rows,
    }  # fmt: skip


# --- a run ----------------------------------------------------------------------------------------


def record(program: str, load: TopLoad) -> Recording:
    """Run one program on a terminal of our own."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        top_cluster.save(top_cluster.replies(load.size, load.seed), Path(folder))
        module = "stoker.tui.bench.top_programs"
        argv = [sys.executable, "-m", module, program, folder, str(load.hertz)]
        master, slave = pty.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            argv, env=_environment(), stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        try:
            run = _Run(master, process)
            run.drive(load, keys_of(program, load))
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            os.close(master)
        return run.recording(Path(folder) / FRAMES)


def _environment() -> dict[str, str]:
    known = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    return {**known, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONUTF8": "1"}


def keys_of(program: str, load: TopLoad) -> list[str]:
    """Return the keys of a run: moves, and for ours a change of view after each round."""
    keys: list[str] = []
    for turn in range(max(1, int(load.seconds / KEY_EVERY_S / len(MOVES)))):
        keys += MOVES
        if program == "ours":
            keys += VIEWS[turn % len(VIEWS)]
    return keys


class _Run:
    """One program while it runs."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master, self._process = master, process
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []
        self._count = self._bytes = 0
        self._arrivals: list[tuple[int, float]] = []
        self._keys: list[float] = []
        self._rss_mb = 0.0

    def drive(self, load: TopLoad, keys: Sequence[str]) -> None:
        """Wait for the first frame, type the keys at their times, and end the program.

        A program that ends by itself gets no keys.
        """
        deadline = time.monotonic() + START_S
        while self._count < COLUMNS * ROWS and time.monotonic() < deadline:
            if not self._take(0.1):
                return
        begun = time.monotonic() + 2.0
        for at, key in enumerate(keys):
            self._until(begun + at * load.seconds / len(keys))
            self._keys.append(time.monotonic())
            os.write(self._master, key.encode())
        self._until(time.monotonic() + 1.0)
        self._rss_mb = _peak_mb(self._process.pid)
        os.write(self._master, b"q")
        deadline = time.monotonic() + START_S
        while self._take(0.1) and time.monotonic() < deadline:
            pass

    def _until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            self._take(min(left, 0.05))

    def _take(self, seconds: float) -> bool:
        """Take what is there; return False at the end of the program."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return self._process.poll() is None
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            return False
        now = time.monotonic()
        # The line discipline puts a carriage return before each newline, which nobody has counted.
        text = self._decoder.decode(data).replace("\r", "")
        self._pieces.append(text)
        self._count += len(text)
        self._bytes += len(data)
        self._arrivals.append((self._count, now))
        return bool(data)

    def recording(self, log: Path) -> Recording:
        """Return the run with the program's own notes."""
        lines = log.read_bytes().splitlines() if log.exists() else []
        text = "".join(self._pieces)
        if not lines or not lines[-1].startswith(b'{"skipped"'):
            raise StokerError(f"the program did not come to its end: {text[-400:]!a}")
        decode = msgspec.json.Decoder(FrameLog).decode
        return Recording(
            text, self._arrivals, self._keys, [decode(line) for line in lines[:-1]],
            msgspec.json.decode(lines[-1])["skipped"], self._rss_mb, self._bytes,
        )  # fmt: skip


def _peak_mb(pid: int) -> float:
    """Return the most memory that a process has had, in MB of 10^6 bytes."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0


# --- figures --------------------------------------------------------------------------------------


def figures(run: Recording) -> dict[str, Any]:
    """Return what a run shows of a program."""
    frames = run.frames[WARM_FRAMES:]
    took = sorted((frame.ended_s - frame.began_s) * 1e3 for frame in frames)
    waits = sorted(key_waits(run))
    return {
        "frames": len(frames),
        "frame_p50_ms": _at(took, 0.5),
        "frame_p95_ms": _at(took, 0.95),
        "frame_cpu_p95_ms": _at(sorted(frame.cpu_s * 1e3 for frame in frames), 0.95),
        "keys": len(waits),
        "key_p50_ms": _at(waits, 0.5),
        "key_p95_ms": _at(waits, 0.95),
        "rss_mb": run.rss_mb,
        "bytes_per_frame": run.output_bytes / max(len(run.frames), 1),
        "dropped_frames": run.skipped,
    }


def key_waits(run: Recording) -> list[float]:
    """Return for each key the milliseconds until all of the frame that shows it had arrived."""
    counts = [frame.keys for frame in run.frames]
    ends = [count for count, _ in run.arrivals]
    waits = []
    for number, sent_s in enumerate(run.keys, 1):
        shown = bisect_left(counts, number)
        if shown < len(run.frames):
            came = bisect_left(ends, run.frames[shown].end)
            if came < len(ends):
                waits.append((run.arrivals[came][1] - sent_s) * 1e3)
    return waits


def _at(values: Sequence[float], part: float) -> float:
    return values[min(int(len(values) * part), len(values) - 1)] if values else 0.0


def compare(run: Recording, seed: int) -> dict[str, int]:
    """Let pyte parse the output, and compare frames drawn by lot with the lines they were made of.

    A cell that differs is an error of the program, never a figure.
    """
    try:
        import pyte
    except ImportError:
        raise NotSupported("pyte is not installed", hint="pip install 'stoker[test]'") from None
    frames = [frame for frame in run.frames if frame.lines and frame.end <= len(run.text)]
    chosen = random.Random(seed).sample(frames, min(FRAMES_COMPARED, len(frames)))
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    done = cells = 0
    for frame in sorted(chosen, key=lambda each: each.end):
        stream.feed(run.text[done : frame.end])
        done = frame.end
        cells += _compare(screen, frame)
    return {"frames_compared": len(chosen), "cells_checked": cells}


def _compare(screen: Any, frame: FrameLog) -> int:
    """Return the number of cells, all of which are as they should be."""
    for y, spans in enumerate(frame.lines):
        x = 0
        for words, tone in spans:
            ink = THEMES["dark"][tone]
            wanted = ink.colour.lstrip("#"), ink.ground.lstrip("#")
            for char in words:
                cell = screen.buffer[y][x]
                if cell.data != char or (cell.fg, cell.bg) != wanted:
                    raise StokerError(
                        f"line {y}, column {x}: {cell.data!a} {cell.fg} {cell.bg} is there, "
                        f"{char!a} {wanted[0]} {wanted[1]} should be"
                    )
                x += 2 if screen.buffer[y][x + 1].data == "" and x + 1 < COLUMNS else 1
    return len(frame.lines) * COLUMNS


def text(result: dict[str, Any]) -> str:
    """Return the figures as a table."""
    lines = [
        f"{result['nodes']} nodes, {result['devices']} devices, {result['jobs']} jobs, "
        f"all devices change {result['hertz']:g} times a second, load {result['load_1min']:.1f}",
        "PROGRAM      FRAME P50    P95  CPU P95  KEY P50     P95  MEMORY  BYTES/FRAME  FRAMES "
        " DROPPED",
    ]
    lines += [
        f"{row['program']:<11} {row['frame_p50_ms']:7.1f} ms {row['frame_p95_ms']:6.1f} "
        f"{row['frame_cpu_p95_ms']:8.1f} {row['key_p50_ms']:8.1f} {row['key_p95_ms']:7.1f} "
        f"{row['rss_mb']:4.0f} MB {row['bytes_per_frame']:12.0f} "
        f"{row['frames']:7} {row['dropped_frames']:8}"
        for row in result["programs"]
    ]
    lines.append(
        f"{result['cells_checked']:,} cells of {result['frames_compared']} frames are as they "
        "should be"
    )
    return "\n".join(lines) + "\n"
