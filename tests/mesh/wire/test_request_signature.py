# SPDX-License-Identifier: Apache-2.0
"""Signed requests: the validity of a signature, and the requests that need none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stoker.mesh.identity.identity import Identity
from stoker.mesh.wire import request_signature, schema, subjects
from stoker.native.errors import BadRequest, Denied, Unsigned

SUBMIT = ("job", "submit")
DATA = b'{"argv":["true"]}'
NS = 1_000_000_000


def signed(key: Identity, request: tuple[str, str] = SUBMIT, data: bytes = DATA) -> dict[str, str]:
    made = request_signature.headers(key, subjects.request(*request), data)
    assert made is not None
    return made


def check(key: Identity, given: dict[str, str] | None, **other: object) -> None:
    asked = {"request": SUBMIT, "data": DATA, "now_ns": time.time_ns(), "required": True} | other
    request_signature.check(key.public, given=given, **asked)  # type: ignore[arg-type]


def test_the_users_own_signature_is_taken(keyring: dict[str, Identity]) -> None:
    check(keyring["alice"], signed(keyring["alice"]))


@pytest.mark.parametrize("required", [False, True])
def test_a_wrong_signature_is_never_taken(keyring: dict[str, Identity], required: bool) -> None:
    alice, given = keyring["alice"], signed(keyring["alice"])
    wrong = {
        "another user": (signed(keyring["bob"]), {}),
        "other bytes": (given, {"data": DATA + b" "}),
        "another request": (given, {"request": ("job", "cancel")}),
        "too short": ({**given, request_signature.SIGNATURE: "////"}, {}),
        "not base64": ({**given, request_signature.SIGNATURE: "\n%"}, {}),
        "another time": ({**given, request_signature.SIGNED_AT: str(time.time_ns() + 1)}, {}),
        "no time": ({request_signature.SIGNATURE: given[request_signature.SIGNATURE]}, {}),
        "an endless time": ({**given, request_signature.SIGNED_AT: "9" * 5000}, {}),
        "too old": (given, {"now_ns": time.time_ns() + (request_signature.VALID_S + 1) * NS}),
        "of the future": (given, {"now_ns": time.time_ns() - (request_signature.VALID_S + 1) * NS}),
    }
    for what, (headers, other) in wrong.items():
        with pytest.raises(Denied):
            check(alice, headers, required=required, **other)
            pytest.fail(what)


def test_only_changes_need_a_signature(keyring: dict[str, Identity]) -> None:
    alice = keyring["alice"]
    check(alice, None, required=False)
    for request in schema.ENDPOINTS:
        if request in request_signature.CHANGES:
            with pytest.raises(Unsigned, match=r"\.".join(request)):
                check(alice, None, request=request)
        else:
            check(alice, None, request=request)
            assert request_signature.headers(alice, subjects.request(*request), DATA) is None


def test_every_request_that_changes_something_is_known() -> None:
    """A new verb that only reads is listed here; any other must be in CHANGES."""
    looks = {"get", "list", "read", "logs", "explain", "trace", "readings", "topology"}
    for noun, verb in schema.ENDPOINTS:
        assert ((noun, verb) in request_signature.CHANGES) != (verb in looks), (noun, verb)


def test_config_toml_may_demand_signatures(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert not request_signature.read(path).require_signature
    path.write_text("[requests]\nrequire_signature = true\n")
    assert request_signature.read(path).require_signature
    for text in ('[requests]\nrequire_signature = "yes"\n', "[requests]\nsigned = true\n", "["):
        path.write_text(text)
        with pytest.raises(BadRequest, match=r"config\.toml"):
            request_signature.read(path)
