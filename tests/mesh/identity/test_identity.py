# SPDX-License-Identifier: Apache-2.0
"""Keys: private files, nkeys that nats-server knows, signatures that cannot be forged."""

from __future__ import annotations

import os
from pathlib import Path

import nkeys
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity, Verifier
from stoker.native.errors import BadRequest, Corrupt, Denied, NotFound, Refused


def test_a_key_is_private_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "a.nk"
    made = identity.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert identity.load(path).public == made.public
    assert list(path.parent.iterdir()) == [path]


def test_it_is_the_nkey_that_others_read(tmp_path: Path) -> None:
    path = tmp_path / "a.nk"
    made = identity.create(path)
    other = nkeys.from_seed(bytearray(path.read_bytes().strip()))
    assert other.public_key.decode() == made.public
    assert made.public.startswith("U")
    assert other.verify(b"text", made.sign(b"text"))


def test_signatures(tmp_path: Path) -> None:
    one, two = identity.create(tmp_path / "1"), identity.create(tmp_path / "2")
    signature = one.sign(b"text")
    check = Verifier(one.public)
    assert check.verify(b"text", signature)
    assert signature == one.sign(b"text")
    assert not check.verify(b"texT", signature)
    assert not check.verify(b"text", two.sign(b"text"))
    assert not check.verify(b"text", signature[:-1])
    assert not check.verify(b"text", b"")
    for bit in range(0, 512, 37):
        broken = bytearray(signature)
        broken[bit // 8] ^= 1 << bit % 8
        assert not check.verify(b"text", bytes(broken))


def test_no_seed_in_any_text(tmp_path: Path) -> None:
    path = tmp_path / "a.nk"
    made = identity.create(path)
    seed = path.read_text().strip()
    assert seed not in repr(made) + str(made)
    path.write_text(seed[:-1] + "!")
    with pytest.raises(Corrupt) as caught:
        identity.load(path)
    assert seed[:20] not in str(caught.value) + repr(caught.value.__context__)


def test_a_seed_with_a_changed_character_is_no_seed(tmp_path: Path) -> None:
    path = tmp_path / "a.nk"
    identity.create(path)
    seed = path.read_text()
    for at in range(len(seed.strip())):
        other = "A" if seed[at] != "A" else "B"
        path.write_text(seed[:at] + other + seed[at + 1 :])
        with pytest.raises(Corrupt):
            identity.load(path)


def test_a_seed_with_changed_unused_bits_is_no_seed() -> None:
    """The last of a seed's 58 characters has two bits that base32 decoding ignores."""
    seeds = (nkeys.encode_seed(bytes([n]) * 32, nkeys.PREFIX_BYTE_USER) for n in range(256))
    seed = next(seed for seed in seeds if seed.endswith(b"A"))
    Identity(seed)
    with pytest.raises(Corrupt, match="damaged"):
        Identity(seed[:-1] + b"B")


def test_files_that_are_not_private_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.nk"
    identity.create(path)
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(Denied, match="can be read by others"):
            identity.load(path)
    other = tmp_path / "shadow"  # a file that is no key may need its mode
    other.write_text("root:x")
    other.chmod(0o644)
    with pytest.raises(Denied) as caught:
        identity.load(other)
    assert "chmod" not in str(caught.value)
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(Denied):
        identity.load(link)
    with pytest.raises(NotFound):
        identity.load(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Denied, match="not a regular file"):
        _load_pipe(tmp_path / "pipe")


def _load_pipe(path: Path) -> None:
    keep = os.open(path, os.O_RDWR)  # opening it for reading alone would wait for a writer
    try:
        identity.load(path)
    finally:
        os.close(keep)


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.nk"
    first = identity.create(path)
    with pytest.raises(Refused, match="exists"):
        identity.create(path)
    assert identity.load_or_create(path).public == first.public
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.nk"]


@pytest.mark.parametrize("public", ["", "U", "x" * 56, "A" * 56, "Ü" * 20, "U" + "A" * 55])
def test_public_keys_are_checked(public: str) -> None:
    with pytest.raises(BadRequest):
        Verifier(public)
