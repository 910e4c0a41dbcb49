# SPDX-License-Identifier: Apache-2.0
"""Names of users as rules use them; a user without a name is called by the number."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from functools import lru_cache


@lru_cache(maxsize=1024)
def name(uid: int) -> str:
    """Name of this user on this node."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def named(holders: Mapping[str, frozenset[int]]) -> dict[str, frozenset[str]]:
    """Device -> names of the users whose jobs have it."""
    return {device: frozenset(map(name, uids)) for device, uids in holders.items()}
