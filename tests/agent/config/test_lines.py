# SPDX-License-Identifier: Apache-2.0
"""Places of keys in TOML texts, also where the same word stands in texts and comments."""

from __future__ import annotations

import pytest

from stoker.agent.config import lines

TEXT = '''\
# jobs = 1
[node]
labels = [
  "jobs",
  "bytes=1",
]

[retention]
note = """
jobs = 2
"""
jobs = 3
otlp.bytes = 4

[[device]]
id = "a"

[[device]]
id = "b"
memory_bytes = 5

[models."NVIDIA L40S"]
idle_w = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("node",), 2),
        (("node", "labels"), 3),
        (("node", "labels", 1), 3),
        (("retention",), 8),
        (("retention", "note"), 9),
        (("retention", "jobs"), 12),
        (("retention", "otlp", "bytes"), 13),
        (("device", 0, "id"), 16),
        (("device", 1, "id"), 19),
        (("device", 1, "memory_bytes"), 20),
        (("models", "NVIDIA L40S"), 22),
        (("models", "NVIDIA L40S", "idle_w"), 23),
        (("models", "absent"), 0),
        ((), 0),
    ],
)
def test_the_line_is_that_of_the_statement(path: tuple[str | int, ...], line: int) -> None:
    assert lines.of(TEXT, path) == line


def test_a_text_without_end_has_no_places() -> None:
    assert lines.of("\n" * (lines.LINES_MAX + 1) + "jobs = 1", ("jobs",)) == 0


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ((), ""),
        (("retention", "jobs"), "retention.jobs"),
        (("device", 0, "id"), "device[1].id"),
        (("models", "NVIDIA L40S", "idle_w"), 'models."NVIDIA L40S".idle_w'),
    ],
)
def test_keys_are_spelled_as_in_toml(path: tuple[str | int, ...], said: str) -> None:
    assert lines.dotted(path) == said
