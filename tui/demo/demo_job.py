# SPDX-License-Identifier: Apache-2.0
"""The demo: one traced job on a private node, from submit to report.

It passes only if the job succeeded and the tracer counted exactly the launches that the program
reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from stoker.mesh.client.client import Client
from stoker.mesh.client.job_output import Stream
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError
from stoker.tui.calls import job_calls, timeline
from stoker.tui.demo import private_node

JOB_S = 300.0
KERNELS = ("saxpy", "smooth", "norm")
"""The kernels of the demo program; its other figures are copies."""
TAIL_BYTES = 4000
CUDA_PROGRAM = Path(__file__).resolve().parents[2] / "examples/cuda/saxpy.py"


@dataclass
class Demo:
    """The result: the object of `stoker job -o json` with more fields, and the failures."""

    job: dict[str, Any]
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DemoWork:
    """The program that the job runs, its device, and the reason if the tracer cannot count."""

    argv: tuple[str, ...]
    untraced: str = ""
    """The reason why the tracer will not see the kernels, or empty."""
    kind: Literal["gpu", "cpu"] = "gpu"
    """The kind of device that the job requests."""
    no_gpu: str = ""
    """A sentence if the device is no GPU, or empty."""


def run(*, trace: str, keep: bool, out: Path) -> Demo:
    """Run the whole demo; raises StokerError if there is nothing to show."""
    with private_node.running(keep=keep) as node:
        demo = asyncio.run(_one_job(node.state, node.work, trace, out))
    demo.failures += node.failures
    if keep:
        demo.job["state_folder"] = str(node.state)
    return demo


async def _one_job(state: Path, folder: Path, trace: str, out: Path) -> Demo:
    async with Client.open(str(state)) as client:
        work = stage(folder, (await client.devices()).devices)
        number = (await client.submit(_request(work, folder, trace))).job
        async with asyncio.timeout(JOB_S + 30):
            await client.wait(number)
        said, wrote = await output(client, number, "out"), await output(client, number, "err")
        view = await client.get(number, trace=True)
        job = (await job_calls.describe(client, [view]))[0]
        failures = [*_ended(view, wrote), *counted(job, said, work)]
        try:
            await timeline.save(client, number, out)
            job["perfetto"] = os.path.relpath(out)
        except StokerError as error:
            failures.append(f"no timeline: {error}")
            job["perfetto"] = None
        job["program"] = said
        job["missing"] = [*job["missing"], *filter(None, (work.no_gpu, work.untraced))]
        return Demo(job, failures)


def _request(work: DemoWork, folder: Path, trace: str) -> schema.JobRequest:
    return schema.JobRequest(
        argv=work.argv,
        cwd=str(folder),
        name="demo",
        gpu_milli=1000,
        device_kind=work.kind,
        trace=trace,  # type: ignore[arg-type]
        time_limit_s=JOB_S,
    )


def stage(folder: Path, devices: tuple[schema.DeviceView, ...]) -> DemoWork:
    """Copy the program that suits the devices to a folder that the job's user can read."""
    real = [d for d in devices if d.vendor.lower().startswith("nvidia") and not d.sim]
    if real and CUDA_PROGRAM.exists() and _has_cuda_python() and _open_to_jobs(sys.executable):
        program = folder / CUDA_PROGRAM.name
        shutil.copyfile(CUDA_PROGRAM, program)
        program.chmod(0o755)
        why = "kernels of CUDA programs: this version traces OpenCL; the program timed its own"
        return DemoWork((sys.executable, str(program)), why)
    from stoker.native import paths

    program = folder / "stoker-demo-opencl"
    shutil.copyfile(paths.program("stoker-demo-opencl"), program)
    program.chmod(0o755)
    cpu = next((d.id for d in devices if d.kind == "cpu"), "")
    if not cpu:
        return DemoWork((str(program), "--json"))
    said = f"no GPU is used: the program asks for the CPU device {cpu}, as --device-kind cpu does"
    return DemoWork((str(program), "--json"), kind="cpu", no_gpu=said)


def _has_cuda_python() -> bool:
    import importlib.util

    with contextlib.suppress(ImportError, ValueError):
        return importlib.util.find_spec("cuda.bindings") is not None
    return False


def _open_to_jobs(program: str) -> bool:
    """True if every user may run it, since root's jobs run as another user."""
    if os.geteuid() != 0:
        return True
    real = Path(program).resolve()
    return all(path.stat().st_mode & 0o001 for path in (real, *real.parents))


async def output(client: Client, job: int, stream: Stream) -> dict[str, Any]:
    """The JSON object in the last line of a stream, or its text."""
    data, offset = b"", 0
    while True:
        view = await client.logs(schema.LogsRequest(job=job, stream=stream, offset=offset))
        data = (data + view.data)[-TAIL_BYTES:]
        if view.eof or not view.data:
            break
        offset = view.next_offset
    return said(data)


def said(output: bytes) -> dict[str, Any]:
    """The JSON object in the last line of a program's output, or the output under `text`."""
    words = output.decode(errors="replace").strip()
    with contextlib.suppress(ValueError):
        value = json.loads(words.splitlines()[-1] if words else "")
        if isinstance(value, dict):
            return value
    return {"text": words}


def _ended(view: schema.JobView, wrote: Mapping[str, Any]) -> Iterator[str]:
    if view.state != "succeeded":
        why = view.reason or wrote.get("text") or "no reason given"
        yield f"the job {view.state}: {why}"


def counted(job: Mapping[str, Any], program: Mapping[str, Any], work: DemoWork) -> Iterator[str]:
    """Compare the launches that the program reports with those that the tracer counted."""
    if work.untraced:
        return
    launched = {
        name: value["count"]
        for name, value in program.items()
        if name in KERNELS and isinstance(value, dict)
    }
    if not any(launched.values()):
        yield "the demo program did not say how many kernels it launched"
        return
    counted = {kernel["name"]: kernel["count"] for kernel in job["kernels"]}
    for name in sorted(launched.keys() | counted.keys()):
        here, there = launched.get(name, 0), counted.get(name, 0)
        if here != there:
            why = f" ({job['trace_absent']})" if job.get("trace_absent") else ""
            yield f"the program launched {name} {here} times, the tracer counted {there}{why}"
