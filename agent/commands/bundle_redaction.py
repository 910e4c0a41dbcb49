# SPDX-License-Identifier: Apache-2.0
"""Takes secrets and names out of what a support bundle holds.

Pure. Owns that no text leaves with what looks like a secret in it, and that one name has one
stand-in in all of a bundle. System paths and loopback addresses stay: they are what is looked for.
"""

from __future__ import annotations

import re
from typing import Any, Final

from stoker.mesh.recording.stand_ins import KEPT, WORDS, StandIns

HIDDEN: Final = "[hidden]"
SYSTEM: Final = (
    *("/proc/", "/sys/", "/dev/", "/usr/", "/lib", "/bin/", "/sbin/", "/etc/", "/run/stoker"),
    *("127.", "0.0.0.0"),
)
"""The beginnings of paths and addresses that every machine has."""
SECRETS: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\bS[A-Z][A-Z2-7]{56}\b"  # the seed of an nkey
    r"|(?<=://)[^/\s@]+(?=@)"  # user and password of a URL
    r"|(?i:(?<=bearer )|(?<=basic ))[\w.+/=~-]+"
    r"|(?P<key>(?i:\b(?:password|passwd|secret|api[-_]?key|authorization)[\"']?\s*[:=]\s*[\"']?))"
    r"(?!\[hidden\]|(?i:bearer |basic ))[^\s\"',}]+"
    r"|\b(?![0-9a-f]{60,}\b)[A-Za-z0-9_+/-]{60,}={0,2}",  # a join token, or another long word
    re.DOTALL,
)
IDENTITY: Final = re.compile(r"\b[ACNOU][A-Z2-7]{55}\b")
"""The public half of an nkey."""


class BundleRedaction:
    """The stand-ins of one bundle, and how many secrets were hidden in it."""

    def __init__(self) -> None:
        self.hidden = 0
        self._stand_ins = StandIns(SYSTEM)
        self._keys: dict[str, str] = {}
        self._folders: list[tuple[str, str]] = []

    def know(self, kind: str, name: str) -> None:
        """Remember the name of a user, a node or a cluster."""
        if name:
            self._stand_ins.know(kind, name)

    def know_folder(self, path: str, word: str) -> None:
        """Have `word` stand for a folder in the paths of what is in it."""
        self._folders.append((path, word))

    def text(self, text: str) -> str:
        """Return a text of a bundle: without secrets, with stand-ins."""
        text, count = SECRETS.subn(lambda found: (found["key"] or "") + HIDDEN, text)
        self.hidden += count
        text = IDENTITY.sub(lambda found: self._key(found[0]), text)
        for path, word in self._folders:
            text = text.replace(path, word)
        return self._stand_ins.text(text)

    def learn(self, value: Any, key: str = "") -> None:
        """Remember the names in a reply: texts under a key that names people or places."""
        if isinstance(value, str) and key in WORDS:
            self.know(WORDS[key], value)
        elif isinstance(value, list | tuple):
            for each in value:
                self.learn(each, key)
        elif isinstance(value, dict):
            for name, inner in value.items():
                self.learn(inner, name)

    def value(self, value: Any, key: str = "") -> Any:
        """Return a reply with each of its texts redacted; words of stoker's own lists stay."""
        if isinstance(value, str):
            return value if key in KEPT else self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(each, key) for each in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(inner, name) for name, inner in value.items()}
        return value

    def _key(self, public: str) -> str:
        return self._keys.setdefault(public, f"identity-{len(self._keys) + 1}")
