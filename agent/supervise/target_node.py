# SPDX-License-Identifier: Apache-2.0
"""The node that a verb of a node's owner means: `up`, `down`, `user` and `power`.

Owns the rule that these verbs speak of the same node as every other command of this user:
`--state`, STOKER_STATE, the user's context, the default folder, the first that is named; and that a
node of somebody else is named as theirs, never taken for a missing one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stoker.agent.state import state_folder as states
from stoker.agent.state.state_folder import StateFolder, read_json, user_name
from stoker.agent.supervise import other_nodes
from stoker.mesh.connection import context
from stoker.native.errors import Corrupt, Denied, NotFound, Refused


@dataclass(frozen=True, slots=True)
class Foreign:
    """The node of this user's context, which somebody else owns."""

    file: Path
    """The context."""
    url: str
    root: Path | None
    """Its state folder; None: the context does not say."""
    owner: int | None
    """Uid; None: it cannot be seen."""

    @property
    def whose(self) -> str:
        return "somebody else" if self.owner is None else user_name(self.owner)

    @property
    def text(self) -> str:
        """`the node of uid 0 (root) in /var/lib/stoker (tls://127.0.0.1:4222)`."""
        place = f" in {self.root}" if self.root else ""
        return f"the node of {self.whose}{place} ({self.url})"

    def run(self) -> Path | None:
        """Where it says how it is, readable by everybody."""
        folders = context.run_folders(self.root) if self.root else ()
        return next((each for each in folders if _seen(each)), None)


def is_named(option: str | None) -> bool:
    """Whether a folder was named for this very command, by option or environment."""
    return bool(option or os.environ.get("STOKER_STATE"))


def node(option: str | None) -> StateFolder | Foreign:
    """The node meant; touches nothing. Corrupt for a context that cannot be read."""
    file = context.saved_path(os.environ)
    if is_named(option) or not os.path.exists(file):  # noqa: PTH110  a home out of reach has none
        return states.locate(option)
    saved = read_json(file, context.SavedContext)
    root = Path(saved.state) if saved.state else None
    owner = _owner(root) if root else None
    if root is not None and owner == os.geteuid():
        return states.locate(root)
    return Foreign(file, saved.url, root, owner)


def own(option: str | None, verb: str) -> StateFolder:
    """The same, of a verb that only a node's owner may use; Denied by name for another's node."""
    found = node(option)
    if isinstance(found, StateFolder):
        return found
    raise Denied(
        f"`stoker {verb}` is for a node's owner, and your context ({found.file}) uses {found.text}",
        hint=f"Ask {found.whose}, or name a node of yours with --state",
    )


def require(state: StateFolder) -> None:
    """NotFound, Denied or Refused by name where this user has no node in this folder; another that
    runs on this host is named, and how to reach it."""
    try:
        states.require(state)
    except NotFound as error:
        others = other_nodes.running(state)
        if not others:
            raise
        first = others[0]
        raise NotFound(error.message, hint=f"Here runs {first.text}: {first.way}") from None


def to_start(option: str | None, *, beside: bool) -> StateFolder:
    """The folder that `up` starts a node in; Refused where this user's context uses the node of
    somebody else and nobody said that another is wanted."""
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
    """A command line that reaches this very node in the caller's shell."""
    if os.environ.get("STOKER_STATE"):
        usual = states.locate(None).root == state.root
    else:
        usual = is_usual(state)
    return f"stoker {verb}" if usual else f"stoker {verb} --state {state.root}"


def is_usual(state: StateFolder) -> bool:
    """Whether commands of this user reach this node without a word in a new shell."""
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
