# SPDX-License-Identifier: Apache-2.0
"""Plants one fault: the text of one function is changed in memory, and no file is touched.

Guarantees that the changed text was there exactly once, so that no mutant is the original.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Mutant(NamedTuple):
    """One fault: in `function` of `module`, `before` becomes `after`; `guard` is what is lost."""

    name: str
    module: str
    function: str
    before: str
    after: str
    guard: str


def planted_text(mutant: Mutant) -> str:
    """The function's source with the fault; ValueError if its text is not there exactly once."""
    text = textwrap.dedent(inspect.getsource(_function(mutant)[2]))
    if text.count(mutant.before) != 1:
        raise ValueError(f"{mutant.name}: its text is in {mutant.function} not exactly once")
    return text.replace(mutant.before, mutant.after)


def plant(mutant: Mutant) -> None:
    """Put the faulty function in place of the right one, in this process for good."""
    owner, name, right = _function(mutant)
    scope: dict[str, Any] = {}
    code = "from __future__ import annotations\n" + planted_text(mutant)
    exec(compile(code, mutant.name, "exec"), vars(importlib.import_module(mutant.module)), scope)
    wrong = scope[right.__name__]
    setattr(owner, name, wrong)
    _replace_handlers(mutant, right, wrong)


@contextmanager
def planted(*mutants: Mutant) -> Iterator[None]:
    """Put faulty functions in place of the right ones until the block ends."""
    before = [(*_function(mutant)[:2], mutant) for mutant in mutants]
    right = [inspect.getattr_static(owner, name) for owner, name, _ in before]
    try:
        for mutant in mutants:
            plant(mutant)
        yield
    finally:
        for (owner, name, mutant), whole in zip(before, right, strict=True):
            wrong = inspect.getattr_static(owner, name)
            setattr(owner, name, whole)
            _replace_handlers(mutant, wrong, whole)


def _replace_handlers(mutant: Mutant, old: Any, new: Any) -> None:
    """Replace a function in the tables of handlers by event of its module."""
    for table in vars(importlib.import_module(mutant.module)).values():
        if isinstance(table, dict):
            table.update({key: new for key, value in table.items() if value is old})


def _function(mutant: Mutant) -> tuple[Any, str, Any]:
    """The owner, the name and the function itself, behind a property if it is one."""
    owner: Any = importlib.import_module(mutant.module)
    *path, name = mutant.function.split(".")
    for part in path:
        owner = getattr(owner, part)
    found = inspect.getattr_static(owner, name)
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    return owner, name, found.fget if isinstance(found, property) else found
