# SPDX-License-Identifier: Apache-2.0
"""The public schema: its refusals, and that docs/schema/ matches the code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from stoker.mesh.wire import schema, subjects
from stoker.native import errors

DOCS = Path(__file__).resolve().parents[3] / "docs" / "schema"


def test_golden_documents() -> None:
    documents = schema.documents()
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        DOCS.mkdir(parents=True, exist_ok=True)
        for old in DOCS.glob("*.json"):
            old.unlink()
        for name, text in documents.items():
            (DOCS / name).write_bytes(text)
    found = {path.name: path.read_bytes() for path in DOCS.glob("*.json")}
    assert found == documents, "docs/schema is stale: run `make golden` and read the diff"


def test_every_subject_has_an_endpoint() -> None:
    assert set(schema.ENDPOINTS) == set(subjects.REQUESTS)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"argv":["true"],"gpus":1}', "unknown field `gpus`"),
        (b'{"argv":["true"]', "truncated"),
        (b'{"argv":[1]}', "$.argv[0]"),
        (b"{}", "missing required field `argv`"),
        (b"", "missing required field `argv`"),
        (b'{"schema":"stoker/v2","argv":["true"]}', "$.schema"),
        (b'{"argv":["\xff"]}', "utf-8"),
        (b'{"argv":["true"],"gpu_milli":"1"}', "$.gpu_milli"),
        (b"[" * 100_000, "Expected `object`"),
        (b'{"argv":' + b"[" * 100_000, "job.submit"),
    ],
)
def test_bad_requests_are_named(data: bytes, says: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        schema.decode_request("job", "submit", data)
    assert says in caught.value.message


def test_documents_refuse_unknown_fields_as_the_code_does() -> None:
    document = json.loads(schema.documents()["job.submit.request.json"])
    jsonschema.Draft202012Validator.check_schema(document)
    request = json.loads(schema.encode(schema.JobRequest(argv=("true",))))
    jsonschema.validate(request, document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**request, "gpus": 1}, document)


def test_replies_fit_their_documents() -> None:
    view = schema.LogsView(job=1, stream="out", data=b"\xff\x00", next_offset=2, eof=True)
    document = json.loads(schema.documents()["job.logs.reply.json"])
    jsonschema.validate(json.loads(schema.encode(view)), document)
    assert schema.decode_reply("job", "logs", schema.encode(view)) == view


@pytest.mark.parametrize("kind", [errors.StokerError, *errors.StokerError.__subclasses__()])
def test_errors_cross_as_their_own_kind(kind: type[errors.StokerError]) -> None:
    with pytest.raises(kind) as caught:
        schema.decode_reply("job", "get", schema.error_reply(kind("no", hint="do")))
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("no", "do")


def test_an_unknown_code_is_still_an_error() -> None:
    data = b'{"error":{"code":"newer","message":"m"}}'
    with pytest.raises(errors.StokerError, match="m"):
        schema.decode_reply("job", "get", data)


@pytest.mark.parametrize(("noun", "verb"), schema.ENDPOINTS)
def test_a_reply_may_have_more_fields_and_a_request_may_not(noun: str, verb: str) -> None:
    """So commands of one version understand schedulers of the next one, which add fields."""
    endpoint = schema.ENDPOINTS[noun, verb]
    assert issubclass(endpoint.reply, schema.ReplyMessage)
    assert not endpoint.reply.__struct_config__.forbid_unknown_fields
    assert endpoint.request.__struct_config__.forbid_unknown_fields


def test_a_command_passes_over_what_a_newer_scheduler_adds() -> None:
    added = b'{"schema":"stoker/v1","changed":true,"since":{"version":9}}'
    assert schema.decode_reply("cluster", "upgrade", added) == schema.Done(changed=True)
