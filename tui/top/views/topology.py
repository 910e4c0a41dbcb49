# SPDX-License-Identifier: Apache-2.0
"""The view `topology`: the links between the devices and network cards of a node, as a matrix.

Pure: the text of `stoker node NAME --topology`, fitted to the screen. Simulated devices say SIM.
"""

from __future__ import annotations

from stoker.tui.calls import views
from stoker.tui.render import topology
from stoker.tui.top import answers as parts
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Piece, line
from stoker.tui.top.view import View
from stoker.tui.top.views import words


def _lines(answers: Answers, subject: str, look: Look) -> list[Line]:
    view = answers.topology
    if view is None or view.node != subject:
        return [words.absent(f"node {subject}", answers.refused.get("topology", ""))]
    devices = parts.by_node(answers.devices or ()).get(subject, ())
    whole = topology.render(views.part(view), [views.part(device) for device in devices])
    head, *rest = whole.rstrip("\n").split("\n")
    return [(Piece(head, "head"),), *(line(each) for each in rest)]


VIEW = View(
    name="topology",
    title="Topology",
    says="the links between the devices of a node",
    needs=("topology", "devices", "nodes"),
    subject="node",
    lines=_lines,
)
