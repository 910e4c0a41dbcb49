# SPDX-License-Identifier: Apache-2.0
"""Names and what they are hashed to, which the log depends on."""

from __future__ import annotations

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler import names


def test_ids_never_change_and_are_never_nothing() -> None:
    assert names.name_id("n1") == 18235861091803621825
    assert names.queue_id("research") == 2750230725
    assert (names.queue_id(""), names.queue_id("default")) == (0, 0)
    assert 0 < names.queue_id("x") < 1 << 32


@pytest.mark.parametrize("name", ["a", "a-b.c_9", "9", "x" * 63])
def test_names_that_can_be(name: str) -> None:
    assert names.check_name(name, "queue") == name


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a b", "x" * 64, "é", "a/b"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(BadRequest, match="queue"):
        names.check_name(name, "queue")


@pytest.mark.parametrize("label", ["a=b", "a.b/c-d=", "Zone=A:1", "k=" + "v" * 126])
def test_labels_that_can_be(label: str) -> None:
    assert names.check_label(label) == label


@pytest.mark.parametrize("label", ["a", "=b", "a=b c", "a=b=c", "-a=b", "k=" + "v" * 127, ""])
def test_labels_that_cannot_be(label: str) -> None:
    with pytest.raises(BadRequest, match="KEY=VALUE"):
        names.check_label(label)
