# SPDX-License-Identifier: Apache-2.0
"""The client without an event loop, against a real broker: calls, iterators, errors, interrupts."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.mesh.connection.context import Context
from stoker.native.errors import NotFound, Unavailable
from tests.fakes import node as fakes


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Any]:
    with fakes.FakeNode(tmp_path) as running:
        yield running


@pytest.fixture
def client(node: Any) -> Iterator[stoker.Client]:
    where = Context(node.url, node.folder / "user.nk", "tester", node.certificate)
    with stoker.Client(where) as connected:
        yield connected


def logs(asked: dict[str, Any]) -> dict[str, Any]:
    data = b"first second"[asked["offset"] : asked["offset"] + 6]
    end = asked["offset"] + len(data)
    found = {"data": base64.b64encode(data).decode(), "next_offset": end, "eof": end == 12}
    return {"schema": "stoker/v1", "job": 7, "stream": asked["stream"], **found}


def test_a_job_from_submit_to_its_output(node: Any, client: stoker.Client) -> None:
    node.answers["job.submit"] = lambda asked: fakes.job_view(7, "pending")
    node.answers["job.get"] = lambda asked: fakes.job_view(7, "succeeded")
    node.answers["job.logs"] = logs
    job = client.submit(stoker.JobRequest(argv=("true",)))
    assert [view.state for view in client.watch(job.job)] == ["succeeded"]
    assert client.wait(job.job).job == 7
    assert list(client.logs(7)) == [b"first ", b"second"]


def test_a_reader_may_leave_before_the_end(node: Any, client: stoker.Client) -> None:
    node.answers["job.logs"] = logs
    node.answers["job.get"] = lambda asked: fakes.job_view(7, "running")
    for piece in client.logs(7):
        assert piece == b"first "
        break
    assert client.get(7).state == "running"


def test_an_error_of_the_node_is_raised(node: Any, client: stoker.Client) -> None:
    node.answers["job.get"] = lambda asked: fakes.failure("not_found", "there is no job 9")
    with pytest.raises(NotFound, match="there is no job 9"):
        client.get(9)


def test_an_interrupted_call_leaves_the_client_usable(
    node: Any, client: stoker.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def silent(_: dict[str, Any]) -> None:
        asked.set()

    def interrupted(self: Any, timeout: float | None = None) -> Any:
        assert asked.wait(30)
        raise KeyboardInterrupt

    node.answers["job.get"] = silent
    with monkeypatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.get(7)
    node.answers["job.get"] = lambda asked: fakes.job_view(7, "running")
    assert client.get(7).state == "running"


def test_closing_twice_is_harmless_and_ends_all_calls(node: Any, client: stoker.Client) -> None:
    node.answers["job.logs"] = logs
    pieces = client.logs(7)
    assert next(pieces) == b"first "
    client.close()
    client.close()
    with pytest.raises(Unavailable, match="this client is closed"):
        client.get(7)
    with pytest.raises(Unavailable, match="this client is closed"):
        next(pieces)


def test_no_node_is_one_error_and_no_thread(node: Any) -> None:
    seed = node.folder / "user.nk"
    before = threading.active_count()
    with pytest.raises(Unavailable):
        stoker.Client(Context("nats://127.0.0.1:1", seed, "tester", node.certificate), patience_s=0)
    assert threading.active_count() == before


def test_the_package_has_no_other_names() -> None:
    assert stoker.AsyncClient.__name__ == "Client"
    with pytest.raises(AttributeError, match="no attribute 'Cluster'"):
        _ = stoker.Cluster  # type: ignore[attr-defined]
