# SPDX-License-Identifier: Apache-2.0
"""A simulated node (SIM) and a process that reads its cards as the agent does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stoker.native import _sim
from stoker.probes.simdriver import libraries, profiles

PROGRAM = Path(__file__).parent / "read_cards.py"


class Reader:
    """One simulated node and the process `read_cards.py` for it."""

    def __init__(
        self,
        folder: Path,
        profile: str,
        features: tuple[str, ...] = (),
        *,
        broken: bool = True,
    ) -> None:
        """`features`: more features of all cards than the profile gives them. `broken`: one card
        has errors of its memory and a port that is down."""
        cards = profiles.load(profile, 7)
        for card in cards:
            card["flags"] |= sum(profiles.FEATURES[each] for each in features)
        self.node = _sim.Node.create(str(folder / "node"), cards, True, 7, profile)
        self.cards = len(cards)
        vendors = {self.node.truth(card)["model"]["vendor"] for card in range(self.cards)}
        self.node.set_load(0, 0.8, 0.4, 0.1)
        self.node.add_process(0, 4242, 3 << 30, 0.5, "trainer")
        if broken:
            self.node.inject("ecc", 1, value=0, count=3)
            self.node.inject("link", 1, value=2)
        told = libraries.environment(folder / "node", vendors)
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, folder],
            env=told,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the reader ended: {self.process.wait(5)}"
        return json.loads(line)

    def ask(self, words: str = "read") -> Any:
        self.say(words)
        return self.hear()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
