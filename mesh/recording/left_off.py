# SPDX-License-Identifier: Apache-2.0
"""Reads from a ring how far its last recorder had read what the cluster tells of moments.

A recorder that starts again goes on from there. Owns that nothing which was told while no recorder
ran is passed over, and that nothing which is whole in the ring is recorded twice.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from stoker.mesh.client.kept_telemetry import LastRead
from stoker.mesh.recording.recording_file import RecordingFile
from stoker.mesh.recording.ring_files import segments
from stoker.mesh.recording.sampler import POSITIONS
from stoker.native.errors import Corrupt


def positions(folder: Path) -> dict[str, LastRead]:
    """Return the last position of each part in the newest segment that is whole enough to tell.

    A segment repeats all positions at its begin, so that an older one is asked only where a newer
    one cannot be read. Empty for a ring that has none.
    """
    for path in reversed(segments(folder)):
        with contextlib.suppress(Corrupt, FileNotFoundError, msgspec.MsgspecError):
            file = RecordingFile(path.read_bytes(), path.name)
            told = file.state(file.last_ns).get(POSITIONS, {})
            return {part: msgspec.json.decode(row, type=LastRead) for part, row in told.items()}
    return {}
