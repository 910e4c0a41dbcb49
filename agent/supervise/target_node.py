# SPDX-License-Identifier: Apache-2.0
"""The node that the owner's verbs mean: `up`, `down`, `user` and `power`.

These verbs mean the same node as every other command of this user. It is the first that is set of:
`--state`, STOKER_STATE, the user's context, the default folder. Invariant: a node of another user
is named as such and never taken for a missing one.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from stoker.agent.state import state_folder as states
from stoker.agent.state.state_folder import StateFolder, read_json, user_name
from stoker.agent.supervise import other_nodes
from stoker.mesh.connection import context
from stoker.native.errors import Corrupt, Denied, NotFound, Refused


class ForeignNode(msgspec.Struct, frozen=True):
    """The node of this user's context, owned by another user."""

    file: Path
    """The context file."""
    url: str
    root: Path | None
    """The node's state folder; None if the context does not name it."""
    owner: int | None
    """The owner's uid; None if it cannot be read."""

    @property
    def whose(self) -> str:
        return "somebody else" if self.owner is None else user_name(self.owner)

    @property
    def text(self) -> str:
        """`the node of uid 0 (root) in /var/lib/stoker (tls://127.0.0.1:4222)`."""
        place = f" in {self.root}" if self.root else ""
        return f"the node of {self.whose}{place} ({self.url})"

    def run(self) -> Path | None:
        """Return the node's run folder, where everybody can read its status; None without one."""
        folders = context.run_folders(self.root) if self.root else ()
        return next((each for each in folders if _seen(each)), None)


def is_named(option: str | None) -> bool:
    """True if this command names a folder by option or environment."""
    return bool(option or os.environ.get("STOKER_STATE"))


def node(option: str | None) -> StateFolder | ForeignNode:
    """Return the node that is meant; touches nothing. Corrupt if the context cannot be read."""
    file = context.saved_path(os.environ)
    if is_named(option) or not os.path.exists(file):  # noqa: PTH110  an unreachable home has none
        return states.locate(option)
    saved = read_json(file, context.SavedContext)
    root = Path(saved.state) if saved.state else None
    owner = _owner(root) if root else None
    if root is not None and owner == os.geteuid():
        return states.locate(root)
    return ForeignNode(file, saved.url, root, owner)


def own(option: str | None, verb: str) -> StateFolder:
    """Return the node for a verb of owners; Denied with the owner's name for another's node."""
    found = node(option)
    if isinstance(found, StateFolder):
        return found
    raise Denied(
        f"`stoker {verb}` is for a node's owner, and your context ({found.file}) uses {found.text}",
        hint=f"Ask {found.whose}, or name a node of yours with --state",
    )


def own_node(option: str | None, verb: str) -> StateFolder:
    """Return the node as `own` does, if it was ever started; NotFound if not."""
    found = own(option, verb)
    require(found)
    return found


def require(state: StateFolder) -> None:
    """Raise NotFound, Denied or Refused if this user has no node in this folder; NotFound names
    another node of this host and how to reach it."""
    try:
        states.require(state)
    except NotFound as error:
        others = other_nodes.running(state)
        if not others:
            raise
        first = others[0]
        raise NotFound(error.message, hint=f"Here runs {first.text}: {first.way}") from None


def to_start(option: str | None, *, beside: bool) -> StateFolder:
    """Return the folder in which `up` starts a node. Refused if this user's context uses a node of
    another user and `beside` is not set."""
    found = node(option)
    if isinstance(found, StateFolder):
        return found
    if beside:
        return states.locate(None)
    raise Refused(
        f"your context ({found.file}) uses {found.text}: there is nothing to start",
        hint="`stoker nodes` shows it. To start a node of your own beside it: stoker up --beside",
    )


def call(state: StateFolder, verb: str) -> str:
    """Return a command line that reaches this very node in the caller's shell."""
    if os.environ.get("STOKER_STATE"):
        usual = states.locate(None).root == state.root
    else:
        usual = is_usual(state)
    return f"stoker {verb}" if usual else f"stoker {verb} --state {state.root}"


def is_usual(state: StateFolder) -> bool:
    """True if this user's commands reach this node in a new shell without any option."""
    file = context.saved_path(os.environ)
    if not os.path.exists(file):  # noqa: PTH110
        return state.root == context.default_state().resolve()
    try:
        saved = read_json(file, context.SavedContext)
    except Corrupt:
        return False
    return bool(saved.state) and Path(saved.state).resolve() == state.root


def _owner(root: Path) -> int | None:
    try:
        return root.stat().st_uid
    except OSError:
        return None


def _seen(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:
        return False
