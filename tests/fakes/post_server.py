# SPDX-License-Identifier: Apache-2.0
"""An HTTP server on loopback that keeps every POST, whatever is in it."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Post(NamedTuple):
    """One request; its body is unpacked."""

    path: str
    headers: dict[str, str]
    body: bytes


def body_of(handler: BaseHTTPRequestHandler) -> bytes:
    """Read the body of a request, and unpack it."""
    body = handler.rfile.read(int(handler.headers["Content-Length"]))
    return gzip.decompress(body) if handler.headers.get("Content-Encoding") == "gzip" else body


class PostServer:
    """Answers with a status; one that redirects names another path of this server."""

    def __init__(self) -> None:
        self.status = 200
        self.heard: list[Post] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.hear(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def hear(self, handler: BaseHTTPRequestHandler) -> None:
        self.heard.append(Post(handler.path, dict(handler.headers), body_of(handler)))
        handler.send_response(self.status)
        if 300 <= self.status < 400:
            handler.send_header("Location", f"{self.url}/elsewhere")
        handler.send_header("Retry-After", "3")
        handler.end_headers()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
