# SPDX-License-Identifier: Apache-2.0
"""A verb's requests are run to their end, and what they return is not made a text of."""

from __future__ import annotations

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
