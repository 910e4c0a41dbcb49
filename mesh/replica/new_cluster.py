# SPDX-License-Identifier: Apache-2.0
"""The genesis of a new cluster, and the feature level with which it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from stoker.mesh.log import genesis
from stoker.mesh.log.feature_level import BUILD, FORMATS
from stoker.mesh.log.genesis import Genesis, RosterMember, member_number
from stoker.native.errors import BadRequest
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import Account

SIZES: Final = (1, 3, 5)
"""The numbers of schedulers that a cluster may have."""


def founding(
    cluster: str,
    public_key: str,
    limits: Limits,
    accounts: Mapping[str, Account],
    level: int = BUILD.newest,
) -> Genesis:
    """Return the genesis of a cluster with one scheduler; errors are as in `founding_several`."""
    return founding_several(cluster, (public_key,), limits, accounts, level)


def founding_several(
    cluster: str,
    public_keys: Sequence[str],
    limits: Limits,
    accounts: Mapping[str, Account],
    level: int = BUILD.newest,
) -> Genesis:
    """Return the genesis of a cluster; BadRequest if it cannot be founded.

    `public_keys` are those of its schedulers: one, three or five, since an even number bears no
    more losses than one less. Their order decides who owns which term. Accounts that are too many
    for a genesis are left to later entries.
    """
    if len(public_keys) not in SIZES:
        raise BadRequest(f"a cluster has 1, 3 or 5 schedulers, not {len(public_keys)}")
    roster = tuple(RosterMember(member_number(each), each) for each in public_keys)
    ordered = dict(sorted(accounts.items()))
    made = Genesis(cluster, limits, roster, FORMATS[level], ordered, level=level)
    if genesis.size(made) > genesis.GENESIS_BYTES_MAX:
        made = msgspec.structs.replace(made, accounts={})
    genesis.check(made)
    return made
