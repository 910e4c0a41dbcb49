# SPDX-License-Identifier: Apache-2.0
"""`native/core/wire_layout.h` and its digest: every offset of a header, for the compiler to check.

The compiled core carries the digest, and so does the Python side: a module that was built from
another layout is refused at import, also where no size differs.
"""

from __future__ import annotations

import hashlib

from generate.header import Header
from generate.text import joined

OPENING = """\
/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of each field of a record, as the Python side has it; the compiler checks every line.
 * Written by `make generate` from wire.h; change that file instead.
 */
#ifndef SK_CORE_WIRE_LAYOUT_H
#define SK_CORE_WIRE_LAYOUT_H

#include <assert.h>
#include <stddef.h>

#include "core/core.h"
#include "core/wire.h"
"""
CHECK = """\
#define SK_WIRE_AT(record, field, offset, size) \\
\tstatic_assert(offsetof(struct record, field) == (offset) && \\
\t\tsizeof(((struct record *)0)->field) == (size), "run `make generate`")
"""


def rows(header: Header) -> list[str]:
    """One line for each field of each record."""
    return [
        f"SK_WIRE_AT(sk_{record.name}, {member.name}, {member.offset}, {member.size});"
        for record in header.records.values()
        for member in record.members
    ]


def digest(header: Header) -> str:
    """A digest of every name, offset, type and number."""
    numbers = [f"{c.name}={c.value}" for c in header.constants.values()]
    numbers += [f"{c.name}={c.value}" for enum in header.enums.values() for c in enum]
    types = [
        f"{record.name}.{member.name}:{member.type}"
        for record in header.records.values()
        for member in record.members
    ]
    text = "\n".join([*rows(header), *numbers, *types])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def c_header(header: Header) -> str:
    """The text of `native/core/wire_layout.h`."""
    name = f'/* Equal digests mean equal records. */\n#define SK_WIRE_DIGEST "{digest(header)}"\n'
    return joined(
        [
            OPENING,
            name,
            "/* clang-format off */",
            CHECK,
            *rows(header),
            "/* clang-format on */",
            "",
            "#endif",
        ]
    )
