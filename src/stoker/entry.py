# SPDX-License-Identifier: Apache-2.0
"""The entry of the `stoker` script: `--version` is answered here, all else by the verbs.

Owns that the version costs no more than an interpreter: scripts call it to see what is installed.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Print the version, or run the command line."""
    if sys.argv[1:] == ["--version"]:
        from stoker import __version__

        print(f"stoker {__version__}")
        return
    from stoker.main import main as run

    run()
