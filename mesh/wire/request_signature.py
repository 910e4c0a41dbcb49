# SPDX-License-Identifier: Apache-2.0
"""The signature of a user over one request, in addition to the broker's authentication.

If the administrator demands signatures (`[requests]` in config.toml), the scheduler refuses changes
without one, and the client signs from then on. A signature that is given is always checked. Owns
that a broker which lies about a sender then changes nothing in a user's name. A signature is valid
for its subject, its bytes and VALID_S, within which the client may repeat the request.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Signs, Verifier
from stoker.mesh.wire import subjects
from stoker.native.errors import BadRequest, Denied, Unsigned

SIGNED_AT = "Stoker-Signed-At"
"""The header with the signer's CLOCK_REALTIME in ns, as decimal digits."""
SIGNATURE = "Stoker-Signature"
"""The header with the Ed25519 signature over `_signed_bytes`, in base64."""
VALID_S = 120
"""The most that a signature may differ from the scheduler's time: clocks differ, requests wait."""
NS = 1_000_000_000
_DIGITS_MAX = 20

CHANGES = frozenset(
    {
        *(("job", verb) for verb in ("submit", "cancel", "remove", "stdin", "tracing")),
        *subjects.ADMIN_REQUESTS,
    }
    - {subjects.AUDIT_READ}
)
"""All (noun, verb) that change something."""
_CHANGE_SUBJECTS = frozenset(subjects.request(noun, verb) for noun, verb in CHANGES)


class RequestPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[requests]` of config.toml."""

    require_signature: bool = False
    """True to refuse changes that are not signed with the user's key."""


def read(path: Path) -> RequestPolicy:
    """Return the policy of a `config.toml`, or the default; BadRequest says what is wrong."""
    import tomllib  # a client only signs

    try:
        return msgspec.convert(tomllib.loads(path.read_text()).get("requests", {}), RequestPolicy)
    except FileNotFoundError:
        return RequestPolicy()
    except (OSError, ValueError) as error:
        raise BadRequest(f"{path}: {error}") from None


def headers(signer: Signs, subject: str, data: bytes) -> dict[str, str] | None:
    """Return the headers that sign a request; None if it changes nothing."""
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
    """Raise Denied for a bad signature, Unsigned for a missing one that is required.

    `request` is (noun, verb), `given` its headers, `now_ns` CLOCK_REALTIME.
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
            f"the time of this signature differs from the scheduler's by over {VALID_S} s",
            hint="compare the clocks of both machines",
        )
    signed = _signed_bytes(subjects.request(*request), at, data)
    if not _verifier(public_key).verify(signed, _decoded(made)):
        raise Denied("this signature does not match the user's key and this request")


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
