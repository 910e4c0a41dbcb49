# SPDX-License-Identifier: Apache-2.0
"""Names of attempt folders: `7` is the first attempt of job 7, `7.2` the second.

No two attempts share a folder, so their files are never mixed and none is overwritten.
"""

from __future__ import annotations

import re

from stoker.agent.jobs.steps import Key

_NAME = re.compile(r"([1-9]\d{0,18})(?:\.([1-9]\d{0,9}))?", re.ASCII)


def folder_name(job: int, attempt: int) -> str:
    """Return the name of an attempt's folder."""
    return str(job) if attempt == 1 else f"{job}.{attempt}"


def key_of(name: str) -> Key | None:
    """Return the attempt to which a folder belongs; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None or match[2] == "1":
        return None
    return int(match[1]), int(match[2] or 1)
