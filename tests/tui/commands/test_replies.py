# SPDX-License-Identifier: Apache-2.0
"""A verb's requests are run to their end, and what they return is not made a text of."""

from __future__ import annotations

import pytest

from stoker.native.errors import NotFound
from stoker.tui.commands import replies


class Reply:
    """A reply that counts how often a text is made of it; of a long list that takes seconds."""

    def __init__(self) -> None:
        self.texts = 0

    def __repr__(self) -> str:
        self.texts += 1
        return "a reply"


def test_the_end_of_the_loop_makes_no_text_of_the_reply() -> None:
    reply = Reply()

    async def requests() -> Reply:
        return reply

    assert replies.call(requests()) is reply and not reply.texts


async def _no_job(hint: str) -> None:
    raise NotFound("there is no job 7", hint=hint)


def test_a_job_that_is_not_there_has_the_command_that_lists_jobs() -> None:
    with pytest.raises(NotFound, match=r"there is no job 7\. `stoker jobs --all` lists"):
        replies.call(_no_job(""))
    with pytest.raises(NotFound, match=r"^there is no job 7\. Look elsewhere$"):
        replies.call(_no_job("Look elsewhere"))
