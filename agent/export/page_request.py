# SPDX-License-Identifier: Apache-2.0
"""One request for the metrics page or a probe, and its answer, as HTTP/1.1.

h11 parses, so that nothing of the protocol is guessed here. No I/O: bytes go in, an answer comes
out. Invariant: a request is read up to REQUEST_BYTES_MAX and has one answer, after which the
connection is closed.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

import h11

from stoker.probes.otlp.prometheus_text import Form

REQUEST_BYTES_MAX = 8 * 1024
"""The longest head of a request; Prometheus sends about 300 bytes."""
PATHS = ("/metrics", "/livez", "/readyz")
_OPENMETRICS = "application/openmetrics-text"


class PageRequest(NamedTuple):
    """A request that is one for a page. `head`: only the head of the answer is wanted."""

    path: str
    form: Form
    head: bool = False


class Answer(NamedTuple):
    """The answer to a request, as HTTP has it."""

    status: int
    body: bytes
    type: str = "text/plain; charset=utf-8"


class RequestReader:
    """The reader of one connection's only request."""

    def __init__(self) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        self._head = False

    def feed(self, data: bytes) -> PageRequest | Answer | None:
        """Take in bytes, empty at the end of the stream; return the request, the answer to a wrong
        one, or None while more has to come."""
        try:
            self._connection.receive_data(data)
            event = self._connection.next_event()
        except h11.RemoteProtocolError as error:
            return _refusal(error.error_status_hint, str(error))
        if isinstance(event, h11.Request):
            return self._request(event)
        return None if event is h11.NEED_DATA else _refusal(400, "no request came")

    def _request(self, event: h11.Request) -> PageRequest | Answer:
        method, target = event.method.decode("ascii"), event.target.decode("latin-1")
        self._head = method == "HEAD"
        if method not in ("GET", "HEAD"):
            return _refusal(405, "only GET and HEAD are answered")
        path = target.partition("?")[0]
        if path not in PATHS:
            return _refusal(404, f"there are {', '.join(PATHS)}")
        accepted = next((value for name, value in event.headers if name == b"accept"), b"")
        return PageRequest(path, form_of(accepted.decode("latin-1")), self._head)

    def answer(self, found: Answer) -> bytes:
        """Return the bytes of the answer."""
        reason = HTTPStatus(found.status).phrase.encode()
        head = [
            ("Content-Type", found.type),
            ("Content-Length", str(len(found.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        if self._connection.our_state is not h11.SEND_RESPONSE:
            self._connection = h11.Connection(h11.SERVER)  # what came was no request
        response = h11.Response(status_code=found.status, headers=head, reason=reason)
        made = self._connection.send(response) or b""
        return made if self._head else made + found.body


def form_of(accept: str) -> Form:
    """Return the form that an Accept header prefers: OpenMetrics only if it is named with a weight
    of at least that of plain text."""
    weights: dict[str, float] = {}
    for part in accept.split(",")[:32]:
        kind, *parameters = (word.strip().lower() for word in part.split(";"))
        given = [word[2:] for word in parameters if word.startswith("q=")]
        try:
            weight = float(given[0]) if given else 1.0
        except ValueError:
            weight = 0.0
        weights[kind] = max(weight, weights.get(kind, 0.0))
    wanted = weights.get(_OPENMETRICS, 0.0)
    plain = max(weights.get(kind, 0.0) for kind in ("text/plain", "text/*"))
    return "openmetrics" if wanted > 0 and wanted >= plain else "text"


def _refusal(status: int, why: str) -> Answer:
    return Answer(status, f"{why}\n".encode())
