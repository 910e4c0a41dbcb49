# SPDX-License-Identifier: Apache-2.0
"""An administrator's request in the log: its words, without what was not given, and bounded."""

from __future__ import annotations

from stoker.mesh.log.entry import AdminBlob
from stoker.mesh.server import admin_record
from stoker.mesh.wire import schema


def test_it_has_what_was_given() -> None:
    request = schema.QueueSetRequest(queue="night", weight=3)
    said = admin_record.of("root", "queue.set", request)
    assert said == AdminBlob("root", "queue.set", '{"queue":"night","weight":3}')


def test_a_long_request_is_cut() -> None:
    request = schema.NodeLabelRequest(node="n1", labels=("x" * 5000,))
    content = admin_record.of("root", "node.label", request).content
    assert len(content) == admin_record.CONTENT_CHARS_MAX and content.endswith("...")
