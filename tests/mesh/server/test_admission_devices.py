# SPDX-License-Identifier: Apache-2.0
"""The words of a request on its devices as a set: contradictions are refused, others are kept."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.server.admission import admit
from stoker.mesh.wire.job_request import JobRequest
from stoker.native.errors import BadRequest
from stoker.tui.options.job_flags import FLAGS


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"device_ids": ("0",), "gpu_milli": 0}, "device_ids speaks of devices"),
        ({"exclusivity": "mig", "gpu_milli": 0}, "exclusivity speaks of devices"),
        ({"topology": "required", "gpu_milli": 0}, "topology speaks of devices"),
        ({"numa": "require", "gpu_milli": 0}, "numa speaks of devices"),
        ({"models": ("H200",), "gpu_milli": 0}, "models speaks of devices"),
        ({"device_ids": ("0", "0")}, "names a device twice"),
        ({"device_ids": ("0",), "gpu_milli": 2000}, "names 1 devices"),
        ({"device_ids": tuple(map(str, range(13)))}, "has 13 devices, at most 12"),
        ({"device_ids": ("",)}, "printable characters"),
        ({"device_ids": ("a\nb",)}, "printable characters"),
        ({"device_ids_mode": "require"}, "names no device"),
        ({"exclusivity": "exclusive", "gpu_milli": 500}, "gpu_milli asks for a part of one device"),
        ({"exclusivity": "mig", "gpu_milli": 500}, "a part of one device"),
        ({"exclusivity": "shared"}, "gpu_milli asks for whole devices"),
        ({"exclusivity": "exclusive", "profiles": ("cpx",)}, "names partitions"),
        ({"exclusivity": "mig", "device_kind": "cpu"}, "device_kind is 'cpu'"),
        ({"topology": "required"}, "nothing to link"),
        ({"topology": "preferred", "gpu_milli": 500}, "no link of its own"),
        ({"topology": "preferred", "gpu_milli": 2000, "same_link": True}, "only prefers"),
        ({"min_link_gbps": 9, "gpu_milli": 2000}, "but topology is 'none'"),
        ({"within": "rack"}, "but the job has one task"),
        ({"prefer_within": ("rack",)}, "but the job has one task"),
        ({"within": "no key", "tasks": 2}, "not the key of a label"),
        ({"within": "rack", "prefer_within": ("rack",), "tasks": 2}, "name a level twice"),
        ({"prefer_within": ("a", "b", "c", "d", "e"), "tasks": 2}, "come to 5 preferences"),
        (
            {"prefer": ("vendor=amd",) * 4, "device_ids": ("0",)},
            "come to 5 preferences, at most 4",
        ),
        ({"placement": "luckiest"}, "there is no placement 'luckiest'"),
        ({"placement": "custom"}, "there is no placement 'custom'"),
    ],
)
def test_what_contradicts_itself_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        admit(JobRequest(argv=("true",), **{"gpu_milli": 1000, **fields}))


def test_a_hint_names_an_option_that_there_is() -> None:
    with pytest.raises(BadRequest) as refused:
        admit(JobRequest(argv=("true",), gpu_milli=1000, within="rack"))
    assert refused.value.hint.split()[0] in {name for flag in FLAGS for name in _names(flag)}


def _names(flag: Any) -> list[str]:
    """Return the spellings of an option of `run`."""
    return list(flag(lambda: None).__click_params__[0].opts)


@pytest.mark.parametrize(
    "fields",
    [
        {"device_ids": ("0", "1"), "device_ids_mode": "require", "gpu_milli": 2000},
        {"exclusivity": "shared", "gpu_milli": 500},
        {"exclusivity": "mig", "profiles": ("1g.10gb",)},
        {"topology": "required", "gpu_milli": 2000, "same_link": True, "min_link_gbps": 300},
        {"topology": "preferred", "tasks": 2},
        {"within": "rack", "nodes": 2, "gpu_milli": 0},
        {"prefer_within": ("block", "rack"), "tasks": 2},
        {"topology": "required", "tasks_per_node": 4},
    ],
)
def test_what_makes_sense_is_kept(fields: dict[str, Any]) -> None:
    spec = admit(JobRequest(argv=("true",), **{"gpu_milli": 1000, **fields}))
    assert all(getattr(spec, name) == value for name, value in fields.items() if name != "nodes")
