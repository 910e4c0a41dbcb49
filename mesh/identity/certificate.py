# SPDX-License-Identifier: Apache-2.0
"""The broker's certificate, which the node makes once and every client pins.

Owns the settings of TLS on both sides. A client refuses a broker without this certificate's key
before it sends anything, so a process that takes over the broker's port learns nothing. The
certificate is self-signed: trust comes from the file alone, which only the node's owner can write.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import ssl
import stat
from functools import lru_cache
from pathlib import Path
from typing import Any

from stoker.native.errors import BadRequest, Corrupt, Denied, NotFound, Unavailable

NAMES = ("localhost", "127.0.0.1", "::1")
"""The host names under which clients reach the broker of one node."""
MINIMUM = ssl.TLSVersion.TLSv1_3
FILE_BYTES_MAX = 64 * 1024


def make(subject: str, *addresses: str) -> tuple[bytes, bytes]:
    """Return a new key and its certificate as PEM.

    `subject` is for people; clients check NAMES, and other brokers one of `addresses`.
    """
    # These imports are slow and only needed here, so no other command pays for them.
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    # It does not expire (RFC 5280, 4.1.2.5), so a wrong clock cannot stop a node. Replacing the
    # file revokes it.
    first_day = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
    no_last_day = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject[:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(first_day)
        .not_valid_after(no_last_day)
        .add_extension(
            x509.SubjectAlternativeName([_general(host) for host in (*NAMES, *addresses)]), False
        )
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
    import ipaddress

    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def check_pair(key: Path, certificate: Path) -> None:
    """Raise Corrupt if a key and a certificate cannot be read or do not belong together."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise Corrupt(
            f"{key} and {certificate} are not a key and its certificate: {error}",
            hint="restore them from a backup, or remove both: new ones are then made",
        ) from None


def pinned(certificate: Path) -> ssl.SSLContext:
    """Return the TLS context of a client that accepts this certificate only.

    Raises NotFound, Denied or Corrupt unless the file is one that only its owner can write.
    """
    return _context(read(certificate), str(certificate))


def read(certificate: Path) -> bytes:
    """Return the PEM text of a pinned certificate.

    The owner and the mode are checked, because a planted file would make a foreign broker trusted.
    """
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
    # Newer OpenSSL accepts a certificate that is no authority as a trust anchor only with this.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise Corrupt(f"{where} holds no certificate", hint="ask the node's owner for it") from None
    return context


def connecting(certificate: Path) -> dict[str, Any]:
    """Return the options of `nats.connect` for TLS from the first byte, without a downgrade.

    The certificate alone proves the broker, so its name is the same at each address of its host.
    """
    return {"tls": pinned(certificate), "tls_handshake_first": True, "tls_hostname": NAMES[0]}


def fingerprint(pem: bytes) -> bytes:
    """Return the SHA-256 of a certificate, by which a join token names it."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))).digest()


def fetch(host: str, port: int, wanted: bytes, timeout_s: float) -> tuple[bytes, str]:
    """Return the certificate of the broker at this address, as PEM, and this host's own address.

    Nothing is sent but a TLS greeting. Denied if the certificate has another fingerprint than
    `wanted`, Unavailable if nobody answers.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = MINIMUM
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the fingerprint decides
    try:
        with (
            socket.create_connection((host, port), timeout_s) as plain,
            context.wrap_socket(plain) as secured,
        ):
            found, own = secured.getpeercert(binary_form=True) or b"", secured.getsockname()[0]
    except OSError as error:
        why = error.strerror or str(error)
        raise Unavailable(f"no broker answers at {host}:{port}: {why}") from None
    if hashlib.sha256(found).digest() != wanted:
        raise Denied(f"the program at {host}:{port} is not the broker that the join token names")
    return ssl.DER_cert_to_PEM_cert(found).encode("ascii"), str(own)


def check_one(pem: str) -> None:
    """Raise BadRequest unless this text is one certificate and nothing else."""
    try:
        again = ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(pem))
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        again = ""
    if not again or again.strip() != pem.strip():
        raise BadRequest("this is not one certificate")


class _NoEofWarning(logging.Filter):
    """Drops asyncio's warning that a TLS stream cannot be half-closed.

    asyncio logs it at the end of each TLS stream. No user can act on it, and it would appear in
    the output of every command.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return "eof_received() has no effect" not in record.getMessage()


logging.getLogger("asyncio").addFilter(_NoEofWarning())
