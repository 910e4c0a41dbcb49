# SPDX-License-Identifier: Apache-2.0
"""A user's own signature over one request, beside what the broker says of who sent it.

Where the administrator demands signatures (`[requests]` of config.toml) the scheduler takes no
change without one, and the client signs once it has been told so; one that is given is checked in
any case. Then even a broker that lies about a sender changes nothing in a user's name. A signature
holds for its subject and its bytes, and for VALID_S; within that time it may be repeated, as the
client itself repeats requests whose answer was lost.
"""

from __future__ import annotations

import base64
import binascii
import time
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Signs, Verifier
from stoker.mesh.wire import subjects
from stoker.native.errors import BadRequest, Denied, Unsigned

SIGNED_AT = "Stoker-Signed-At"
"""Header: CLOCK_REALTIME of the signer in ns, as decimal digits."""
SIGNATURE = "Stoker-Signature"
"""Header: base64 of the Ed25519 signature over `_signed_bytes`."""
VALID_S = 120
"""Before and after the scheduler's own time: clocks of hosts differ, and requests wait."""
NS = 1_000_000_000
_DIGITS_MAX = 20

CHANGES = frozenset(
    {
        *(("job", verb) for verb in ("submit", "cancel", "remove", "stdin", "tracing")),
        *subjects.ADMIN_REQUESTS,
    }
)
"""Every (noun, verb) that changes something."""
_CHANGE_SUBJECTS = frozenset(subjects.request(noun, verb) for noun, verb in CHANGES)


class RequestPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[requests]` of config.toml."""

    require_signature: bool = False
    """Refuse what changes anything and is not signed by its user's key."""


def read(path: Path) -> RequestPolicy:
    """The table of `config.toml`, or what holds without one; BadRequest names what is wrong."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text()).get("requests", {}), RequestPolicy)
    except FileNotFoundError:
        return RequestPolicy()
    except (OSError, ValueError) as error:
        raise BadRequest(f"{path}: {error}") from None


def headers(signer: Signs, subject: str, data: bytes) -> dict[str, str] | None:
    """What goes with a request; None for one that changes nothing."""
    if subject not in _CHANGE_SUBJECTS:
        return None
    at = str(time.time_ns())
    made = signer.sign(_signed_bytes(subject, at, data))
    return {SIGNED_AT: at, SIGNATURE: base64.b64encode(made).decode()}


def check(
    public_key: str,
    request: tuple[str, str],
    given: Mapping[str, str] | None,
    data: bytes,
    now_ns: int,
    *,
    required: bool,
) -> None:
    """Unsigned or Denied unless the signature is good, or none is given and none is required.

    `request`: (noun, verb); `given`: its headers; `now_ns`: CLOCK_REALTIME.
    """
    at, made = (given or {}).get(SIGNED_AT, ""), (given or {}).get(SIGNATURE, "")
    if not made:
        if required and request in CHANGES:
            raise Unsigned(
                f"{'.'.join(request)} must be signed by its user's key here",
                hint=f"send {SIGNED_AT} and {SIGNATURE}, as `stoker` does (docs/user)",
            )
        return
    if not at.isdecimal() or len(at) > _DIGITS_MAX or abs(int(at) - now_ns) > VALID_S * NS:
        raise Denied(
            f"this signature is of another time than the scheduler's (by over {VALID_S} s)",
            hint="compare the clocks of both machines",
        )
    signed = _signed_bytes(subjects.request(*request), at, data)
    if not _verifier(public_key).verify(signed, _decoded(made)):
        raise Denied("this signature is not that of the user's key over this request")


def _signed_bytes(subject: str, at: str, data: bytes) -> bytes:
    return b"\n".join((b"stoker request", subject.encode(), at.encode(), data))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


@lru_cache(maxsize=1024)
def _verifier(public_key: str) -> Verifier:
    return identity.Verifier(public_key)
