# SPDX-License-Identifier: Apache-2.0
"""The client for programs without an event loop: `from stoker import Client`.

The calls are those of the asyncio client, made by a thread of their own. Owns one promise: a
KeyboardInterrupt during a call leaves no request behind and the client usable.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from stoker.mesh.client import job_output
from stoker.mesh.client.client import PATIENCE_S, Client
from stoker.mesh.client.job_output import Asked, Stream
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema
from stoker.native.errors import Unavailable
from stoker.scheduler.nouns import ENDED

T = TypeVar("T")
_END = object()


class BlockingClient:
    """A connected client of one node; every call raises StokerError, as the asyncio client does."""

    def __init__(
        self, where: Context | str | None = None, *, patience_s: float = PATIENCE_S
    ) -> None:
        """Connect. `where` is a context, a state folder, or None for the default order of
        `stoker COMMAND`; `patience_s` is how long a request is repeated while the node is away."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()
        try:
            opened = Client.open(where, patience_s=patience_s)
            self._client = self._run(self._stack.enter_async_context(opened))
        except BaseException:
            self._stop()
            raise

    def submit(self, request: schema.JobRequest) -> schema.JobView:
        """Submit a job exactly once; an idempotency key is made if the request has none."""
        return self._run(self._client.submit(request))

    def get(self, job: schema.JobRef, *, trace: bool = False, rank: int = 0) -> schema.JobView:
        """Return one job, with the trace summary of one of its ranks if `trace` is set."""
        return self._run(self._client.get(job, trace=trace, rank=rank))

    def wait(self, job: schema.JobRef, until: str = "ended") -> schema.JobView:
        """Wait without limit until a job has ended, or runs (`running`); return it."""
        return self._run(self._client.wait(job, until))

    def watch(self, job: schema.JobRef) -> Iterator[schema.JobView]:
        """Yield a job now, when it runs and when it has ended; states in between may pass."""
        view = self.get(job)
        yield view
        if view.state not in ENDED and view.times.started_ns is None:
            view = self.wait(view.job, "running")
            yield view
        if view.state not in ENDED:
            yield self.wait(view.job)

    def logs(
        self, job: schema.JobRef, stream: Stream = "out", *, rank: int = 0, follow: bool = True
    ) -> Iterator[bytes]:
        """Yield the output of a job piece by piece; with `follow` until it is over."""
        asked = Asked(job, stream, rank=rank, follow=follow)
        for piece in self._iterate(job_output.pieces(self._client, asked)):
            if piece.data:
                yield piece.data

    def explain(self, job: schema.JobRef, rank: int = 0) -> schema.ExplainView:
        """Explain why a job waits, or why it, or one rank of a gang, was placed where it is."""
        return self._run(self._client.explain(job, rank))

    def cancel(self, select: str, reason: str = "") -> schema.CancelView:
        """Stop the selected jobs that are not over: `3`, `1,4-6`, `last`, `all`."""
        return self._run(self._client.cancel(select, reason))

    def jobs(self, request: schema.ListRequest | None = None) -> Iterator[schema.JobView]:
        """Yield jobs, newest first, page by page."""
        return self._iterate(self._client.list_all(request or schema.ListRequest()))

    def nodes(self) -> tuple[schema.NodeView, ...]:
        """Return all nodes."""
        return self._run(self._client.nodes()).nodes

    def devices(self) -> tuple[schema.DeviceView, ...]:
        """Return all devices."""
        return self._run(self._client.devices()).devices

    def close(self) -> None:
        """Close the connection; may be called twice."""
        if self._thread.is_alive():
            try:
                self._run(self._stack.aclose())
            finally:
                self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            call.close()
            raise Unavailable("this client is closed")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupted call must not go on unseen
            raise

    def _iterate(self, values: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> object:
            return await anext(values, _END)

        try:
            while (value := self._run(following())) is not _END:
                yield value  # type: ignore[misc]
        finally:
            # Nobody waits for it: a reader that is collected may be so on the loop's own thread.
            if not self._loop.is_closed():
                asyncio.run_coroutine_threadsafe(_closed(values), self._loop)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _closed(values: AsyncIterator[Any]) -> None:
    """End an iterator that its reader may have left before its end."""
    if isinstance(values, AsyncGenerator):
        await values.aclose()
