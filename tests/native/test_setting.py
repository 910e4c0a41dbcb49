# SPDX-License-Identifier: Apache-2.0
"""Marks of settings, and URLs as they may be shown."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from stoker.native import setting
from stoker.native.setting import Mark, mark


class Sample(msgspec.Struct):
    plain: int = 0
    marked: Annotated[int, msgspec.Meta(ge=1), mark("--x", "X")] = 1
    unset: Annotated[str, mark(secret=True)] | None = None


def test_a_mark_is_found_beside_its_type_and_in_a_union() -> None:
    found = {field.name: field.type for field in msgspec.structs.fields(Sample)}
    assert setting.of(found["plain"]) == Mark()
    assert setting.of(found["marked"]) == Mark("--x", "X")
    assert setting.of(found["unset"]).secret
    assert [setting.bare(each) for each in found.values()] == [int, int, str]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://host:4318", "http://host:4318"),
        ("https://me:pw@host/v1?key=1", "https://(hidden)@host/v1?(hidden)"),
        ("me:pw@host:1", "(hidden)@host:1"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(text: str, shown: str) -> None:
    assert setting.shown_url(text) == shown
