# SPDX-License-Identifier: Apache-2.0
"""The genesis of a new cluster, and the formats of this version that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from stoker.mesh.log import entry, genesis
from stoker.mesh.log.genesis import Formats, Genesis, RosterMember, member_number
from stoker.mesh.replica import snapshots
from stoker.mesh.wire import command
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import Account

FORMATS: Final = Formats(entry.FORMAT, snapshots.FORMAT, command.FORMAT)


def founding(
    cluster: str, public_key: str, limits: Limits, accounts: Mapping[str, Account]
) -> Genesis:
    """Return the genesis of a cluster with one scheduler; BadRequest if it cannot be founded.

    Accounts that are too many for a genesis are left to later entries.
    """
    roster = (RosterMember(member_number(public_key), public_key),)
    made = Genesis(cluster, limits, roster, FORMATS, dict(sorted(accounts.items())))
    if genesis.size(made) > genesis.GENESIS_BYTES_MAX:
        made = msgspec.structs.replace(made, accounts={})
    genesis.check(made)
    return made
