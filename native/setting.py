# SPDX-License-Identifier: Apache-2.0
"""Marks of a setting beside its type: the option and the variable over it, and its secrecy.

Tables of config.toml are structs, and a field's `Annotated[...]` carries its mark, so that nothing
about a setting is said in a second place. Invariant: the value of a secret setting is never shown.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

_KEY = "setting"
HIDDEN = "(hidden)"


class Mark(NamedTuple):
    """The option, the variable and the secrecy of one setting."""

    option: str = ""
    """The option of `stoker up` that goes before the file."""
    variable: str = ""
    """The environment variable that goes before the file."""
    secret: bool = False


def mark(option: str = "", variable: str = "", *, secret: bool = False) -> msgspec.Meta:
    """Return the mark, to be put into `Annotated`."""
    return msgspec.Meta(extra={_KEY: Mark(option, variable, secret)})


def of(annotation: Any) -> Mark:
    """Return the mark of a field's type; an empty one if it has none. It is looked for beside the
    type and in the members of a union."""
    if get_origin(annotation) is Annotated:
        for meta in annotation.__metadata__:
            if isinstance(meta, msgspec.Meta) and _KEY in (meta.extra or {}):
                found: Mark = (meta.extra or {})[_KEY]
                return found
        return of(get_args(annotation)[0])
    marks = [of(each) for each in get_args(annotation) if get_origin(each) is Annotated]
    return next((each for each in marks if each != Mark()), Mark())


def bare(annotation: Any) -> Any:
    """Return the type without what `Annotated` says of it, and without `| None`."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    members = [each for each in get_args(annotation) if each is not type(None)]
    if type(None) in get_args(annotation) and len(members) == 1:
        return bare(members[0])
    return annotation


def shown_url(text: str) -> str:
    """Return a URL as it may be shown: a user, a password and a query may be secrets."""
    whole, sign, _ = text.partition("?")
    start, scheme, rest = whole.rpartition("://")
    host, slash, path = rest.partition("/")
    _, at, host = host.rpartition("@")
    user, query = (HIDDEN + at if at else ""), (sign + HIDDEN if sign else "")
    return f"{start}{scheme}{user}{host}{slash}{path}{query}"
