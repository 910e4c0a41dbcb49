# SPDX-License-Identifier: Apache-2.0
"""The record of an administrator's request in the log: who asked for what, in the request's words.

The job service puts one beside each change. Owns the bound on its size.
"""

from __future__ import annotations

import msgspec

from stoker.mesh.log.entry import AdminBlob
from stoker.mesh.wire.schema import Message

CONTENT_CHARS_MAX = 2000
"""The most characters of a request's content; what is cut ends with three points."""


def of(user: str, named: str, request: Message) -> AdminBlob:
    """Return the record of a user's request, which is `named` as in `queue.set`; fields that have
    their defaults are left out."""
    given = {
        field.encode_name: getattr(request, field.name)
        for field in msgspec.structs.fields(request)
        if getattr(request, field.name) != field.default
    }
    content = msgspec.json.encode(given).decode()
    if len(content) > CONTENT_CHARS_MAX:
        content = content[: CONTENT_CHARS_MAX - 3] + "..."
    return AdminBlob(user, named, content)
