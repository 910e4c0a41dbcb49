# SPDX-License-Identifier: Apache-2.0
"""The end of a job's output, however long it is: found by bisection, then followed.

Owns the bounds of what the live view holds of it. Only stdout and stderr of the last attempt are
read, and what lies before the lines that are held is counted in bytes.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.tui.top.answers import Logs

LINES_MAX = 2_000
"""The most lines of one stream that are held."""
LINE_MAX = 1_000
"""A longer line is broken."""
TAIL_BYTES = 128 * 1024
"""The distance from its end at which the reading of a stream begins."""
PIECES_MAX = 8
"""The most pieces that one reading fetches, so that fast output holds nothing else up."""


class StreamTail:
    """One stream of one job."""

    def __init__(self, job: int, stream: Literal["out", "err"]) -> None:
        self._job, self._stream = job, stream
        self._offset: int | None = None
        self._attempt = 0
        self._rest = b""
        self._spooled = ""
        """The words about output that its node does not give any more, under its last line."""
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self.skipped = 0
        self.eof = False

    async def read(self, client: Client) -> None:
        """Read what is new; the first time, what stands before the end."""
        if self._offset is None:
            self._offset = self.skipped = await self._start(client)
        for _ in range(PIECES_MAX):
            view = await self._piece(client, self._offset, schema.LOGS_BYTES_MAX)
            if self._attempt and view.attempt != self._attempt:  # another attempt: from its start
                if self.lines:
                    self.lines.append(f"-- attempt {view.attempt} --")
                self._rest, self._offset, self._attempt = b"", 0, view.attempt
                continue
            if view.absent and not self.eof:
                self.lines.append(f"-- {view.absent} --")
            if view.spooled and view.eof and not self.eof:
                self._spooled = f"-- {view.spooled} --"
            self._attempt, self._offset, self.eof = view.attempt, view.next_offset, view.eof
            self._take(view.data)
            if not view.data:
                return

    async def _piece(self, client: Client, offset: int, limit: int) -> schema.LogsView:
        request = schema.LogsRequest(job=self._job, stream=self._stream, offset=offset, limit=limit)
        return await client.logs(request)

    async def _start(self, client: Client) -> int:
        """Return the offset of a line that begins about TAIL_BYTES before the end."""
        low, high = 0, 2 * TAIL_BYTES
        while (await self._piece(client, high, 1)).data:
            low, high = high, high * 2
        while high - low > TAIL_BYTES:
            middle = (low + high) // 2
            low, high = (
                (middle, high) if (await self._piece(client, middle, 1)).data else (low, middle)
            )
        return max(0, low - TAIL_BYTES)

    def _take(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > LINE_MAX:
            whole.append(self._rest[:LINE_MAX])
            self._rest = self._rest[LINE_MAX:]
        for each in whole:
            for at in range(0, max(len(each), 1), LINE_MAX):
                self.lines.append(shown(each[at : at + LINE_MAX]))

    def all_lines(self) -> list[str]:
        """Return the lines, with one that has not ended yet."""
        rest = [shown(self._rest)] if self._rest else []
        return [*self.lines, *rest, *([self._spooled] if self._spooled else [])]


class OutputTail:
    """Both streams of one job."""

    def __init__(self, job: int) -> None:
        self._streams = (StreamTail(job, "out"), StreamTail(job, "err"))

    async def read(self, client: Client) -> Logs:
        """Read what is new and return what is held: stdout, then stderr under a rule."""
        for stream in self._streams:
            await stream.read(client)
        out, err = self._streams
        lines = out.all_lines()
        if said := err.all_lines():
            lines += ["-- stderr --", *said]
        return Logs(tuple(lines), out.skipped + err.skipped, out.eof and err.eof)


def shown(line: bytes) -> str:
    """Return a line as text. A carriage return starts it anew, as on a terminal."""
    text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
    return text.expandtabs(8)
