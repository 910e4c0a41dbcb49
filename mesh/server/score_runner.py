# SPDX-License-Identifier: Apache-2.0
"""Runs scoring functions in processes of their own, each call within a time.

Guarantees that a call ends within LOAD_S + SCORE_S whatever the function does: a process that is
late is killed, and its function is left alone for REST_S, in which every call fails at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from stoker.mesh.replica.events import Score, Scored
from stoker.mesh.server.score_folder import FunctionSource, ScoreFolder
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog
from stoker.scheduler.hints import rank_of
from stoker.scheduler.reasons import Reason

SCORE_S: Final = 0.5
"""The time for one call."""
LOAD_S: Final = 2.0
"""The time in which a function's module must be loaded, once."""
REST_S: Final = 30.0
"""The time for which a function that was late or could not be loaded is not called."""
WORKERS_MAX: Final = 8
LINE_BYTES_MAX: Final = 1 << 20
_WORKER: Final = Path(__file__).with_name("score_worker.py")

log = structlog.get_logger("scheduler")


class Failed(Exception):
    """A call without scores: the core's reason, and words for the log file."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason, self.why = reason, why


class Worker:
    """The process of one version of one function; one call at a time."""

    def __init__(self, process: asyncio.subprocess.Process, version: tuple[int, int, int]) -> None:
        self.version = version
        self.busy = asyncio.Lock()
        self._process = process

    @classmethod
    async def start(cls, name: str, source: FunctionSource) -> Worker:
        """Start a process and let it load the function; Failed if it cannot in time."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", _WORKER.read_text(),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, limit=LINE_BYTES_MAX, cwd="/",
            env={"PATH": "/usr/bin:/bin"}, start_new_session=True, close_fds=True,
        )  # fmt: skip
        worker = cls(process, source.version)
        said = await worker.call({"source": source.text, "name": name}, LOAD_S)
        if "loaded" not in said:
            worker.kill()
            raise Failed(Reason.CHOICE_ABSENT, str(said.get("failed", "it said nothing")))
        return worker

    async def call(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer to one line; Failed if none comes in time."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                await self._process.stdin.drain()
                line = await self._process.stdout.readline()
                answer = json.loads(line) if line else None
        except TimeoutError:
            self.kill()
            raise Failed(Reason.CHOICE_LATE, f"no answer for {seconds:g} s") from None
        except (OSError, ValueError) as error:
            self.kill()
            raise Failed(Reason.CHOICE_RAISED, f"its process ended: {error}") from None
        if answer is None:
            self.kill()
            raise Failed(Reason.CHOICE_RAISED, "its process ended without an answer")
        if not isinstance(answer, dict):
            self.kill()
            raise Failed(Reason.CHOICE_INVALID, "its process said something else")
        return answer

    def kill(self) -> None:
        """End the process and whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)

    @property
    def is_over(self) -> bool:
        """True if the process has ended."""
        return self._process.returncode is not None


class ScoreRunner:
    """The processes of all functions that were called lately."""

    def __init__(self, folder: ScoreFolder) -> None:
        self.counts: Counter[str] = Counter()
        """The numbers of calls by their end: "scored", or the reason in lower case."""
        self._folder = folder
        self._workers: dict[str, Worker] = {}
        self._resting: dict[str, tuple[float, tuple[int, int, int], Failed]] = {}
        """Functions that are left alone: until when, which version, and why."""
        self._turns: dict[str, asyncio.Lock] = {}

    async def score(self, asked: Score) -> Scored:
        """Call a function for one job; whatever happens becomes an event."""
        try:
            async with asyncio.timeout(LOAD_S + SCORE_S):
                async with self._turns.setdefault(asked.name, asyncio.Lock()):
                    answer = await self._answer(asked)
            self.counts["scored"] += 1
            return Scored(asked.job, asked.attempt, _ranks(asked.nodes, answer["scores"]))
        except TimeoutError:
            failed = Failed(Reason.CHOICE_LATE, "other jobs were before it for too long")
        except Failed as error:
            failed = error
        except (StokerError, OSError) as error:
            failed = Failed(Reason.CHOICE_ABSENT, str(error))
        except Exception as error:  # the scheduler must not end because of a function
            failed = Failed(Reason.CHOICE_INVALID, repr(error))
        self.counts[failed.reason.name.lower()] += 1
        log.warning(
            "scoring function failed", function=asked.name, job=asked.job, why=failed.why[:200]
        )
        return Scored(asked.job, asked.attempt, (), failed.reason)

    async def _answer(self, asked: Score) -> dict[str, Any]:
        version = self._folder.version(asked.name)
        resting = self._resting.get(asked.name)
        if resting is not None and resting[1] == version and time.monotonic() < resting[0]:
            raise resting[2]
        try:
            worker = await self._worker(asked.name, version)
            answer = await worker.call(asked.request, SCORE_S)
        except Failed as error:
            self._workers.pop(asked.name, None)
            self._resting[asked.name] = (time.monotonic() + REST_S, version, error)
            raise
        if "raised" in answer:
            raise Failed(Reason.CHOICE_RAISED, str(answer["raised"]))
        if not isinstance(answer.get("scores"), list):
            raise Failed(Reason.CHOICE_INVALID, str(answer.get("invalid", "no scores")))
        return answer

    async def _worker(self, name: str, version: tuple[int, int, int]) -> Worker:
        known = self._workers.get(name)
        if known is not None and known.version == version and not known.is_over:
            return known
        if known is not None:
            known.kill()
        self._make_room(name)
        worker = await Worker.start(name, self._folder.read(name))
        self._workers[name] = worker
        return worker

    def _make_room(self, name: str) -> None:
        self._workers.pop(name, None)
        while len(self._workers) >= WORKERS_MAX:
            self._workers.pop(next(iter(self._workers))).kill()

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.kill()
        self._workers.clear()


def _ranks(nodes: tuple[int, ...], scores: list[float | None]) -> tuple[tuple[int, int], ...]:
    """Return the nodes that have a score, with its rank."""
    return tuple(
        (node, rank_of(score))
        for node, score in zip(nodes, scores, strict=True)
        if score is not None
    )


__all__ = ["LOAD_S", "REST_S", "SCORE_S", "ScoreRunner"]
