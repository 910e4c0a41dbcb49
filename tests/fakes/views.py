# SPDX-License-Identifier: Apache-2.0
"""Public replies with default values for tests, whose arguments override fields."""

from stoker.mesh.wire.schema import DeviceView, JobView, NodeView, Spec, Times
from stoker.tui.top.answers import Answers

SECOND = 1_000_000_000


def node(**more: object) -> NodeView:
    return NodeView(
        node="n1",
        state="ready",
        boot_id="b",
        cpu_milli=2000,
        memory_bytes=1 << 30,
        devices=1,
        jobs=2,
        **more,  # type: ignore[arg-type]
    )


def device(**more: object) -> DeviceView:
    fields: dict[str, object] = {
        "id": "pocl-0",
        "node": "n1",
        "index": 0,
        "vendor": "pocl",
        "model": "pthread",
        "kind": "cpu",
        "memory_bytes": None,
        "unavailable": "",
        "sim": False,
        "granted_milli": 5,
        "jobs": (1, 2),
    }
    return DeviceView(**(fields | more))  # type: ignore[arg-type]


def job(number: int, state: str, **more: object) -> JobView:
    spec = Spec(
        argv=("/opt/tool/train", "-v"),
        cwd="/",
        env=None,
        gpu_milli=5,
        cpu_milli=None,
        memory_bytes=None,
        pids=None,
        time_limit_s=None,
        grace_s=5,
        priority=0,
        trace="governed",
        stdin=False,
        output_bytes_max=1,
    )
    return JobView(
        job=number,
        user="ada",
        name="",
        state=state,
        reason="",
        attempt=1,
        times=Times(submitted_ns=SECOND),
        spec=spec,
        **more,  # type: ignore[arg-type]
    )


def answers(**more: object) -> Answers:
    empty: dict[str, object] = {"nodes": [], "devices": [], "jobs": [], "at_ns": SECOND}
    return Answers(**(empty | more))  # type: ignore[arg-type]
