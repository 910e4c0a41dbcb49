# SPDX-License-Identifier: Apache-2.0
"""The broker's certificate: made once by the node, pinned by everybody who connects.

A connection that does not end at the holder of this certificate's key is refused before a word is
said on it, so whoever takes the broker's port learns nothing and can pass nothing on. Owns the
settings of TLS on both sides. The certificate signs itself and names no authority: trust comes from
the file alone, which only the node's owner can write.
"""

from __future__ import annotations

import datetime
import ipaddress
import logging
import os
import ssl
import stat
from functools import lru_cache
from pathlib import Path
from typing import Any

from stoker.native.errors import Corrupt, Denied, NotFound

NAMES = ("localhost", "127.0.0.1", "::1")
"""Hosts by which the broker of one node is called."""
MINIMUM = ssl.TLSVersion.TLSv1_3
FILE_BYTES_MAX = 64 * 1024
_FIRST_DAY = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_NO_LAST_DAY = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
"""RFC 5280, 4.1.2.5: a certificate without an end. A clock that is wrong must not stop a node, and
what is pinned is given up by replacing the file."""


def make(subject: str) -> tuple[bytes, bytes]:
    """A new key and its certificate as PEM; `subject` is for people, NAMES are what is checked."""
    # Loaded here: nothing else needs it, and every command would pay for its import.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject[:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FIRST_DAY)
        .not_valid_after(_NO_LAST_DAY)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in NAMES]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)


def _general(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def check_pair(key: Path, certificate: Path) -> None:
    """Refuses, by name, a key and a certificate that cannot be read or do not belong together."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise Corrupt(
            f"{key} and {certificate} are not a key and its certificate: {error}",
            hint="restore them from a backup, or remove both: new ones are then made",
        ) from None


def pinned(certificate: Path) -> ssl.SSLContext:
    """A client's side of TLS that takes this certificate and no other.

    NotFound, Denied or Corrupt where the file is not one that its owner alone can write.
    """
    return _context(read(certificate), str(certificate))


def read(certificate: Path) -> bytes:
    """The PEM text of a pinned certificate; a planted file would bless a foreign broker."""
    try:
        descriptor = os.open(certificate, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(f"the broker's certificate is not at {certificate}") from None
    except OSError as error:
        raise Denied(f"{certificate}: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise Denied(f"{certificate} is not a file of this user or of root")
        if found.st_mode & 0o022:
            raise Denied(f"{certificate} can be written by others", hint="chmod go-w it")
        return file.read(FILE_BYTES_MAX)


@lru_cache(maxsize=8)
def _context(pem: bytes, where: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate and the host
    context.minimum_version = MINIMUM
    # Newer OpenSSL takes a certificate of no authority as an anchor only where it is told to.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise Corrupt(f"{where} holds no certificate", hint="ask the node's owner for it") from None
    return context


def connecting(certificate: Path) -> dict[str, Any]:
    """Options of `nats.connect`: TLS from the first byte, so nobody can ask for less."""
    return {"tls": pinned(certificate), "tls_handshake_first": True}


class _NoEofWarning(logging.Filter):
    """asyncio warns at each end of a TLS stream that its own reader asked for a half-close, which
    TLS has not: nobody can act on that, and it would stand in every command's output."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "eof_received() has no effect" not in record.getMessage()


logging.getLogger("asyncio").addFilter(_NoEofWarning())
