# SPDX-License-Identifier: Apache-2.0
"""Names of C that stand for one thing each: tags of structs and enums, and external functions.

Vendor headers of simulated drivers (native/sim) have the vendors' names and are left out, and so
are the names of BPF programs, each of which is an object of its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.native.test_direction import sources
from tests.test_tidy import ROOT

TAG = re.compile(r"\b(?:struct|enum|union)\s+(\w+)\s*\{")
FUNCTION = re.compile(
    r"^(?!static\b|typedef\b)([A-Za-z_][\w \t*]*?[ *])(\w+)\([^;{}]*\)[^;{}]*\n\{", re.MULTILINE
)
STATIC = re.compile(r"^static\b[^;{}()=]*?\b(sk_\w+)\s*[\[(]", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

OTHER_GUARDS = {
    "native/core/policy/frag_lanes.h",
    "native/sim/nvml/names.h",
}
"""Headers that are included several times on purpose."""


def defined(pattern: re.Pattern[str], text: str) -> set[str]:
    """The names that this text defines; an external function is one that is not static."""
    found = pattern.findall(COMMENT.sub("", text))
    return {
        each if isinstance(each, str) else each[1]
        for each in found
        if "static" not in each[0].split()
    }


def duplicates(pattern: re.Pattern[str], texts: Iterable[tuple[Path, str]]) -> dict[str, list[str]]:
    """Names that several files define, with the files."""
    where: dict[str, list[str]] = defaultdict(list)
    for path, text in texts:
        for name in defined(pattern, text):
            where[name].append(str(path))
    return {name: files for name, files in where.items() if len(files) > 1}


def own() -> list[tuple[Path, str]]:
    """The product's own C files but for simulated vendors, with their text."""
    paths = [
        path for path in sources() if path.suffix != ".cpp" and path.parts[:2] != ("native", "sim")
    ]
    return [(path, (ROOT / path).read_text()) for path in paths]


def test_no_tag_means_two_things() -> None:
    found = duplicates(TAG, own())
    assert found == {}


def test_no_external_name_is_in_two_libraries() -> None:
    texts = [(path, text) for path, text in own() if not path.name.endswith(".bpf.c")]
    found = duplicates(FUNCTION, texts)
    found.pop("main")
    assert found == {}


def test_every_guard_is_the_path_of_its_header() -> None:
    for path in sources():
        if path.suffix == ".h" and str(path) not in OTHER_GUARDS:
            words = [*path.parts[1:-1], path.stem.replace(".", "_")]
            guard = "_".join(["SK", *(word.upper() for word in words), "H"])
            text = (ROOT / path).read_text()
            assert f"#ifndef {guard}\n#define {guard}\n" in text, path


def test_names_of_one_source_file_have_no_prefix() -> None:
    prefixed = {
        f"{path}: {name}"
        for path in sources()
        if path.suffix == ".c"
        for name in STATIC.findall(COMMENT.sub("", (ROOT / path).read_text()))
    }
    assert prefixed == set()
    assert STATIC.findall("static const struct sk_a *sk_b(int c)\n") == ["sk_b"]


def test_duplicates_are_found() -> None:
    first = (Path("a.c"), "struct one {\n};\nint two(int a)\n{\n}\n")
    second = (Path("b.c"), "/* struct three { */\nstruct one {\n};\nstatic int two(int a)\n{\n}\n")
    assert duplicates(TAG, [first, second]) == {"one": ["a.c", "b.c"]}
    assert duplicates(FUNCTION, [first, second]) == {}
    assert duplicates(FUNCTION, [first, first]) == {"two": ["a.c", "a.c"]}
