# SPDX-License-Identifier: Apache-2.0
"""The broker's certificate: clients accept the broker that has its key, and no other."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from pathlib import Path

import pytest

from stoker.mesh.identity import certificate
from stoker.native.errors import Corrupt, Denied, NotFound
from tests.fakes import pinned


def shake(theirs: tuple[str, str], ours: Path, host: str = "127.0.0.1") -> str:
    """Handshake between a server with one pair of files and a client that pins another.

    Returns the TLS version, or raises the error of the client.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(theirs[1], theirs[0])
    near, far = socket.socketpair()

    def serve() -> None:
        try:
            server.wrap_socket(far, server_side=True).close()
        except OSError:
            far.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with certificate.pinned(ours).wrap_socket(near, server_hostname=host) as stream:
            return stream.version() or ""
    finally:
        near.close()
        thread.join()


def pair(folder: Path, name: str) -> tuple[str, str]:
    made = folder / name
    made.mkdir()
    return pinned.pair(made)


@pytest.mark.parametrize("host", certificate.NAMES)
def test_the_broker_is_trusted_under_each_of_its_names(tmp_path: Path, host: str) -> None:
    own = pair(tmp_path, "own")
    assert shake(own, Path(own[1]), host) == "TLSv1.3"


def test_no_other_broker_is_trusted(tmp_path: Path) -> None:
    own, other = pair(tmp_path, "own"), pair(tmp_path, "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(other, Path(own[1]))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(own, Path(own[1]), "example.org")


def test_a_wrong_clock_stops_no_client(tmp_path: Path) -> None:
    from cryptography import x509

    found = x509.load_pem_x509_certificate(Path(pair(tmp_path, "own")[1]).read_bytes())
    assert found.not_valid_before_utc.year == 2000 and found.not_valid_after_utc.year == 9999


def test_a_certificate_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = Path(pair(tmp_path, "own")[1])
    path.chmod(0o664)
    with pytest.raises(Denied, match="written by others"):
        certificate.pinned(path)
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(Denied):
        certificate.pinned(link)
    with pytest.raises(NotFound, match="is not at"):
        certificate.pinned(tmp_path / "gone")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_certificate_of_another_user_is_refused(tmp_path: Path) -> None:
    path = Path(pair(tmp_path, "own")[1])
    os.chown(path, 1, 1)
    with pytest.raises(Denied, match="not a file of this user"):
        certificate.pinned(path)


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    key, path = map(Path, pair(tmp_path, "own"))
    certificate.check_pair(key, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Corrupt, match=r"broker\.crt holds no certificate"):
        certificate.pinned(path)
    with pytest.raises(Corrupt, match="are not a key and its certificate"):
        certificate.check_pair(key, path)


def test_a_key_of_another_certificate_is_named(tmp_path: Path) -> None:
    own, other = pair(tmp_path, "own"), pair(tmp_path, "other")
    with pytest.raises(Corrupt, match="are not a key and its certificate"):
        certificate.check_pair(Path(other[0]), Path(own[1]))
