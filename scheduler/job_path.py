# SPDX-License-Identifier: Apache-2.0
"""The PATH of a job that names none: what an agent sets, and what an explanation names."""

from __future__ import annotations

from typing import Final

PATH_USER: Final = "/usr/local/bin:/usr/bin:/bin"
PATH_ROOT: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def default_path(uid: int) -> str:
    """Return the PATH that a login of this user sets."""
    return PATH_USER if uid else PATH_ROOT
