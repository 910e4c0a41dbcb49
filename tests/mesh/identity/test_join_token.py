# SPDX-License-Identifier: Apache-2.0
"""A join token says what was put into it, shows no secret, and is refused when it is damaged."""

from __future__ import annotations

import secrets
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.mesh.identity import identity, join_token
from stoker.mesh.identity.join_token import PREFIX, JoinToken
from stoker.native.errors import BadRequest

RAW = bytes(range(32))
ALPHABET = string.ascii_letters + string.digits + "-_"


def token(address: str = "10.0.0.5", port: int = 21234, own: bytes = RAW) -> JoinToken:
    guest = identity.of_raw(bytes(reversed(RAW)))
    return JoinToken(address, port, secrets.token_bytes(32), guest, identity.of_raw(own))


@given(st.ip_addresses(v=4).map(str), st.integers(1, 65535), st.binary(min_size=32, max_size=32))
def test_it_says_what_was_put_into_it(address: str, port: int, own: bytes) -> None:
    made = token(address, port, own)
    found = join_token.parse(f"  {made.text}\n")
    assert (found.address, found.port, found.fingerprint) == (address, port, made.fingerprint)
    assert found.guest.public == made.guest.public
    assert found.key.public == identity.of_raw(own).public
    assert found.text == made.text


def test_it_is_one_word_that_a_shell_takes_as_it_is() -> None:
    assert set(token().text) <= set(ALPHABET)
    assert len(token().text) < join_token.TEXT_BYTES_MAX


def test_its_repr_shows_no_secret() -> None:
    made = token()
    shown = repr(made)
    assert made.text not in shown
    assert made.key.seed not in shown and made.guest.seed not in shown
    assert repr(made.key.raw) not in shown


def test_any_changed_character_is_noticed_and_never_shown() -> None:
    made = token().text
    for place in range(len(PREFIX), len(made)):
        other = ALPHABET[(ALPHABET.index(made[place]) + 17) % len(ALPHABET)]
        with pytest.raises(BadRequest) as refused:
            join_token.parse(made[:place] + other + made[place + 1 :])
        assert made[place + 1 : place + 9] not in str(refused.value) or place > len(made) - 9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "stoker-join-2-AAAA",
        PREFIX,
        PREFIX + "=" * 20,
        PREFIX + "\u00e9" * 40,
        token().text[:-1],
        token().text + "A",
        token().text * 2,
        PREFIX + "A" * 100_000,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="join token"):
        join_token.parse(text)
