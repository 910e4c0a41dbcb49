# SPDX-License-Identifier: Apache-2.0
"""A log that was written anew, with every hash and signature in order, differs from what a
scheduler signed of the one before."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.mesh.audit.checkpoint_checks import CheckpointChecks, CheckpointFindings
from stoker.mesh.audit.trail import Trail
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import signed_checkpoint
from stoker.mesh.log.signed_checkpoint import SignedCheckpoint
from stoker.mesh.replica.snapshots import agreement
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import Corrupt, StokerError
from tests.mesh.bench import Bench

Found = list[tuple[int, bytes]]


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "s.nk")


@pytest.fixture
def stranger() -> Identity:
    return identity.of_raw(bytes(range(32)))


def history(signer: Identity, *numbers: int) -> Found:
    """The entries of a scheduler alone that took these jobs."""
    bench = Bench(signer).lead().hello()
    for number in numbers:
        bench.submit(number, name=str(number))
    return bench.log.read(1)


def of_state(state: ReplicaState, signer: Identity, *, whole: bool = True) -> SignedCheckpoint:
    made = SignedCheckpoint(
        cluster=state.cluster, index=state.index, hash=state.hash.hex(), trail=state.trail.hex(),
        state=agreement(state.snapshot()).hex() if whole else "", t_ns=7, key="",
    )  # fmt: skip
    return signed_checkpoint.signed(made, signer)


def checkpoint(found: Found, signer: Identity, *, whole: bool = True) -> SignedCheckpoint:
    """The checkpoint that a scheduler signs behind these entries."""
    trail = Trail()
    for place, data in found:
        trail.take(place, data)
    assert trail.state is not None
    return of_state(trail.state, signer, whole=whole)


def audited(found: Found, checks: CheckpointChecks) -> CheckpointFindings:
    trail = Trail()
    for place, data in found:
        if trail.take(place, data) is not None:
            assert trail.state is not None
            checks.take(trail.state)
    assert trail.state is not None
    return checks.over(trail.state)


def test_the_checkpoints_of_a_log_agree_with_it(signer: Identity) -> None:
    found = history(signer, *range(20))
    half = checkpoint(found[:10], signer, whole=False)
    last = checkpoint(found, signer)
    made = audited(found, CheckpointChecks([half, last], [signer.public]))
    assert (made.agree, made.newest, made.keys, made.t_ns) == (
        2, last.index, (signer.public,), 7
    )  # fmt: skip
    assert made.pinned and not made.unknown


def test_a_log_written_anew_with_a_stolen_key_is_found(signer: Identity) -> None:
    """Every entry is signed by the scheduler and in its place, so the trail alone holds."""
    real, forged = history(signer, *range(20)), history(signer, *range(50, 70))
    assert audited(forged, CheckpointChecks(())).agree == 0, "nothing was found before"
    for whole in (True, False):
        kept = checkpoint(real[:15], signer, whole=whole)
        with pytest.raises(Corrupt, match=f"of entry {kept.index} is .*the log was rewritten"):
            audited(forged, CheckpointChecks([kept]))


def test_a_log_with_a_roster_of_the_attackers_own_is_found_by_a_pinned_key(
    signer: Identity, stranger: Identity
) -> None:
    """Its genesis names the attacker's key, and so do the checkpoints beside it: without a key from
    elsewhere the trail vouches for itself."""
    real, forged = history(signer, *range(20)), history(stranger, *range(20))
    beside = checkpoint(forged, stranger)
    assert audited(forged, CheckpointChecks([beside])).agree == 1, "it passes without a pinned key"
    with pytest.raises(Corrupt, match="no checkpoint of the pinned key"):
        audited(forged, CheckpointChecks([beside], [signer.public]))
    kept = checkpoint(real[:10], signer)
    with pytest.raises(Corrupt, match="the log was rewritten"):
        audited(forged, CheckpointChecks([beside, kept], [signer.public]))
    made = audited(forged, CheckpointChecks([beside, kept]))
    assert made.unknown == 1, "a key outside the roster proves nothing unless it is pinned"


def test_a_log_that_lost_its_end_is_found(signer: Identity) -> None:
    found = history(signer, *range(20))
    kept = checkpoint(found, signer)
    with pytest.raises(Corrupt, match="the log lost its end"):
        audited(found[:-2], CheckpointChecks([kept]))


@pytest.mark.parametrize("field", ["hash", "trail", "state", "cluster", "index", "t_ns", "key"])
def test_a_checkpoint_that_was_changed_is_refused(
    signer: Identity, stranger: Identity, field: str
) -> None:
    kept = checkpoint(history(signer, 1, 2), signer)
    value = {"index": kept.index - 1, "t_ns": 8, "key": stranger.public}.get(field, "00")
    changed = msgspec.structs.replace(kept, **{field: value})
    with pytest.raises(Corrupt, match="was not signed by"):
        CheckpointChecks([changed])
    for bad in ("", "zz", "00" * 64):
        with pytest.raises(Corrupt, match="was not signed by"):
            CheckpointChecks([msgspec.structs.replace(kept, signature=bad)])


def test_effects_that_are_not_those_of_the_entries_are_found(signer: Identity) -> None:
    """A scheduler whose state is not what its log says signs what it has."""
    found = history(signer, 1, 2)
    kept = checkpoint(found, signer)
    for field in ("trail", "state"):
        lies = msgspec.structs.replace(kept, **{field: "00" * 32})
        with pytest.raises(Corrupt, match="the log was rewritten"):
            audited(found, CheckpointChecks([signed_checkpoint.signed(lies, signer)]))


def test_a_pinned_key_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(StokerError):
        CheckpointChecks((), ["UNKNOWN"])


def test_entries_are_never_taken_for_checkpoints(signer: Identity, tmp_path: Path) -> None:
    kept = checkpoint(history(signer, 1), signer)
    assert kept.signed.startswith(b"stoker checkpoint 1\n")
    path = tmp_path / "archive" / "checkpoints"
    signed_checkpoint.append(path, kept)
    assert signed_checkpoint.read(path) == [kept]
