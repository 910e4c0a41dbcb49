# SPDX-License-Identifier: Apache-2.0
"""The import that daemons make before all others, so that they load less for as long as they live.

msgspec takes three names of typing_extensions where that is installed, and typing has the same ones
here. The package is 0.8 MiB of memory that nothing else of a daemon uses. Invariant: afterwards it
can be imported as ever.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

_UNUSED = "typing_extensions"


def _load_msgspec() -> None:
    loaded: dict[str, Any] = sys.modules
    if "msgspec" in loaded or _UNUSED in loaded:
        return
    loaded[_UNUSED] = None  # an import of it fails, and msgspec takes typing's names
    try:
        importlib.import_module("msgspec")
    finally:
        del loaded[_UNUSED]


_load_msgspec()
