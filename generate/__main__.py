# SPDX-License-Identifier: Apache-2.0
"""`make generate`: writes every generated file, and says which of them changed."""

from __future__ import annotations

import sys

from generate.files import ROOT, generated


def main() -> int:
    for name, text in generated().items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
