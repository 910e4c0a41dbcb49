# SPDX-License-Identifier: Apache-2.0
"""Named contexts: saved, listed and used, and no name leaves their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.connection import context, saved_contexts
from stoker.mesh.connection.context import Context
from stoker.native.errors import BadRequest, Corrupt, NotFound


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def at(port: int) -> Context:
    return Context(f"tls://127.0.0.1:{port}", Path("/k/a.nk"), "alice", Path("/k/broker.crt"))


def test_a_context_in_use_is_the_one_that_commands_find(environ: dict[str, str]) -> None:
    saved_contexts.save("one", at(1), environ)
    saved_contexts.save("two", at(2), environ)
    assert saved_contexts.names(environ) == ["one", "two"]
    for name, port in (("two", 2), ("one", 1)):
        saved_contexts.use(name, environ)
        assert context.find(None, environ) == at(port)
        assert context.source(None, environ) == str(context.saved_path(environ))
    saved_contexts.save("one", at(3), environ)
    assert saved_contexts.load("one", environ).url.endswith(":3")
    assert context.source("/x", environ) == "--state"
    assert context.source(None, environ | {"STOKER_STATE": "/y"}) == "STOKER_STATE"


def test_a_context_that_is_not_there_names_those_that_are(environ: dict[str, str]) -> None:
    with pytest.raises(NotFound, match="two") as told:
        saved_contexts.use("two", environ)
    assert "None is saved" in told.value.hint
    saved_contexts.save("one", at(1), environ)
    with pytest.raises(NotFound) as told:
        saved_contexts.use("two", environ)
    assert "one" in told.value.hint and not context.saved_path(environ).exists()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "x" * 65, "\x1b[2J"])
def test_no_name_leaves_the_folder(environ: dict[str, str], name: str) -> None:
    with pytest.raises(BadRequest):
        saved_contexts.save(name, at(1), environ)


def test_what_cannot_be_read_is_never_put_in_use(environ: dict[str, str]) -> None:
    path = saved_contexts.save("one", at(1), environ)
    saved_contexts.use("one", environ)
    path.write_text("{")
    with pytest.raises(Corrupt):
        saved_contexts.use("one", environ)
    assert context.find(None, environ) == at(1)
