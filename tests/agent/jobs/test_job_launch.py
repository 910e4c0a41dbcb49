# SPDX-License-Identifier: Apache-2.0
"""The launch of a job: environment, grants, tracer, and the outcome of an end."""

from __future__ import annotations

import msgspec
import pytest
from fakes.orders import start_of

from stoker.agent.jobs import job_launch
from stoker.agent.jobs.job_launch import Home, JobPlace
from stoker.agent.jobs.spawner_messages import Exited, pack_launch
from stoker.agent.state.job_bounds import Limit, NodeBounds
from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import (
    Decision,
    DeviceInfo,
    DeviceShare,
    JobSpec,
    Owner,
    StartJob,
    TaskKey,
    Usage,
)

PLACE = JobPlace("n1", "/state/agent/jobs", "/dev/shm/stoker-0", "/run/lib/libstoker-opencl.so")
HOME = Home("/home/alice", "/bin/zsh")
ALICE = Owner("alice", 1000, 1001, (1001, 44))
GPU = DeviceInfo(
    "GPU-1",
    "nvidia",
    "H200",
    nodes=((195, 0), (195, 255)),
    visible={"CUDA_VISIBLE_DEVICES": "GPU-1"},
)


NEAR = msgspec.structs.replace(GPU, numa=0, near_cpus="0-3", near_memory=True)


def start(spec: JobSpec, owner: Owner = ALICE) -> StartJob:
    return StartJob(7, 2, 0, 0, Decision(9, "n1", (), "fits", 1), owner, spec)


def environment(
    spec: JobSpec, granted: tuple[DeviceInfo, ...] = (), traced: bool = True
) -> dict[str, str]:
    return dict(job_launch.launch(start(spec), granted, HOME, PLACE, traced).env)


def test_the_base_is_clean_and_the_agents_own_environment_is_not_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENT_SECRET", "x")
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    found = environment(JobSpec(("true",)), traced=False)
    assert found == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/home/alice",
        "USER": "alice",
        "LOGNAME": "alice",
        "SHELL": "/bin/zsh",
        "LANG": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "",
        "ROCR_VISIBLE_DEVICES": "",
        "ZE_AFFINITY_MASK": "255",
        "STOKER_JOB_ID": "7",
        "STOKER_ATTEMPT": "2",
        "STOKER_NODE": "n1",
    }


def test_root_finds_the_system_programs() -> None:
    launch = job_launch.launch(
        start(JobSpec(("true",)), Owner("root", 0, 0)), (), HOME, PLACE, False
    )
    assert "/usr/sbin" in launch.env["PATH"]


@pytest.mark.parametrize(
    ("spec", "fenced"),
    [
        (JobSpec(("x",)), True),
        (JobSpec(("x",), gpu_milli=5), True),
        (JobSpec(("x",), gpu_milli=999, retries=1), False),
        (JobSpec(("x",), gpu_milli=1000, retries=1), True),
        (JobSpec(("x",), gpu_milli=3000, preemptible=True), True),
        (JobSpec(("x",), preemptible=True), False),
    ],
)
def test_whole_devices_and_what_may_run_once_only_are_fenced(spec: JobSpec, fenced: bool) -> None:
    assert job_launch.launch(start(spec), (), HOME, PLACE, False).fenced is fenced


def test_the_users_variables_win_over_the_base_but_not_over_the_grant_or_stoker() -> None:
    wanted = {
        "PATH": "/opt/bin",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
        "STOKER_JOB_ID": "1",
        "STOKER_TRACE_DIR": "/etc",
        "STOKER_MINE": "x",
        "LANG": "de_DE.UTF-8",
    }
    found = environment(JobSpec(("true",), env=wanted), (GPU,), traced=False)
    assert found["PATH"] == "/opt/bin"
    assert found["LANG"] == "de_DE.UTF-8"
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert found["STOKER_JOB_ID"] == "7"
    assert "STOKER_TRACE_DIR" not in found
    assert "STOKER_MINE" not in found


def test_the_layer_is_appended_to_the_users_layers() -> None:
    spec = JobSpec(("true",), env={"OPENCL_LAYERS": "/opt/theirs.so"}, trace="full")
    found = environment(spec)
    assert set(found["OPENCL_LAYERS"].split(":")) == {PLACE.layer, "/opt/theirs.so"}
    assert found["STOKER_TRACE_DIR"] == "/dev/shm/stoker-0/7.2"
    assert found["STOKER_TRACE_MODE"] == "full"


def test_a_granted_gpu_brings_its_vendors_tracer_unless_the_job_has_its_own() -> None:
    place = JobPlace("n1", "/j", "/s", tracers={"cupti": "/run/lib/libstoker-cupti.so"})
    spec = JobSpec(("true",), trace="full")
    found = job_launch.launch(start(spec), (GPU,), HOME, place, traced=True).env
    assert found["CUDA_INJECTION64_PATH"] == "/run/lib/libstoker-cupti.so"
    assert job_launch.aside(start(spec), (GPU,), place) == {}
    own = JobSpec(("true",), env={"CUDA_INJECTION64_PATH": "/nsys.so"}, trace="full")
    kept = job_launch.launch(start(own), (GPU,), HOME, place, traced=True).env
    assert kept["CUDA_INJECTION64_PATH"] == "/nsys.so"
    assert "/nsys.so" in job_launch.aside(start(own), (GPU,), place)["cupti"]


def test_a_job_on_amd_cards_is_told_their_ids_and_those_of_no_other_card() -> None:
    place = JobPlace("n1", "/j", "/s", tracers={"rocprofiler": "/run/lib/libstoker-rocprofiler.so"})
    kfd = (234, 0)
    cards = [
        DeviceInfo(f"17ff74a1-{minor}", "amd", "MI300X", nodes=(kfd, (226, minor)))
        for minor in (129, 128)
    ]
    intel = DeviceInfo("86800bd5", "intel", "Max 1550", nodes=((226, 2), (226, 130)))
    spec = JobSpec(("true",), trace="full")
    found = job_launch.launch(start(spec), (*cards, intel), HOME, place, traced=True).env
    assert found["STOKER_RENDER_NODES"] == "128=17ff74a1-128,129=17ff74a1-129"


def test_a_job_on_a_simulated_card_is_led_to_its_driver() -> None:
    simulated = {"STOKER_SIM_NODE": "/sim/node", "LD_LIBRARY_PATH": "/run/lib/sim"}
    place = JobPlace("n1", "/j", "/s", simulated=simulated)
    spec = JobSpec(("true",), env={"LD_LIBRARY_PATH": "/own", "STOKER_SIM_NODE": "/other"})

    def found(*granted: DeviceInfo) -> dict[str, str]:
        return dict(job_launch.launch(start(spec), granted, HOME, place, traced=False).env)

    on_card = found(msgspec.structs.replace(GPU, sim=True))
    assert on_card["STOKER_SIM_NODE"] == "/sim/node"
    assert on_card["LD_LIBRARY_PATH"] == "/run/lib/sim:/own"
    for without in (found(GPU), found()):
        assert without["LD_LIBRARY_PATH"] == "/own" and "STOKER_SIM_NODE" not in without


def test_no_trace_means_no_layer_and_no_segment_folder() -> None:
    off = JobSpec(("true",), trace="off")
    assert not job_launch.wants_trace(off, PLACE)
    launch = job_launch.launch(start(off), (), HOME, PLACE, traced=False)
    assert launch.trace_folder == ""
    assert "OPENCL_LAYERS" not in launch.env
    assert not job_launch.wants_trace(JobSpec(("true",)), JobPlace("n1", "/j", "/s"))


def test_limits_devices_and_identity_are_passed_on() -> None:
    spec = JobSpec(
        ("sh", "-c", "exit"), cwd="/data", cpu_milli=500, memory_bytes=1 << 20, pids=10,
        time_limit_s=1.5, grace_s=0.5, stdin=True, umask=0o077, output_bytes_max=99,
    )  # fmt: skip
    launch = job_launch.launch(start(spec), (GPU, GPU), HOME, PLACE, traced=True)
    assert (launch.job, launch.attempt, launch.uid, launch.gid) == (7, 2, 1000, 1001)
    assert launch.groups == (1001, 44)
    assert launch.folder == "/state/agent/jobs/7.2"
    assert launch.devices == ((195, 0), (195, 255))
    assert (launch.cpu_milli, launch.memory_bytes, launch.pids) == (500, 1 << 20, 10)
    assert (launch.pids_default, launch.user_processes) == (None, 0)
    assert (launch.time_limit_s, launch.grace_s, launch.stdin) == (1.5, 0.5, True)
    assert (launch.umask, launch.output_bytes_max, launch.cwd) == (0o077, 99, "/data")
    assert pack_launch(launch)


def test_a_job_that_requests_nothing_has_the_nodes_bounds() -> None:
    given = NodeBounds(900, Limit(300), Limit(1 << 30, named=True))
    place = msgspec.structs.replace(PLACE, bounds=given)
    launch = job_launch.launch(start(JobSpec(("true",))), (), HOME, place, traced=False)
    assert (launch.pids, launch.pids_default, launch.user_processes) == (None, 300, 900)
    assert (launch.memory_bytes, launch.memory_default) == (1 << 30, 1 << 30)
    spec = JobSpec(("true",), pids=5000, memory_bytes=1 << 20)
    launch = job_launch.launch(start(spec), (), HOME, place, traced=False)
    assert (launch.pids, launch.memory_bytes) == (5000, 1 << 20)


def test_a_grant_names_devices_by_their_index() -> None:
    devices = (GPU, DeviceInfo("b", "x", "m"))
    assert job_launch.grant(devices, (DeviceShare(1, 500),)) == (devices[1],)
    with pytest.raises(BadRequest, match="device 2 was granted"):
        job_launch.grant(devices, (DeviceShare(2, 500),))


def exited(cause: str, code: int | None = None, signal: int | None = None) -> Exited:
    usage = Usage(cpu_ns=5)
    return Exited(7, 2, 0, 0, cause, code, signal, "why", 1, 2, 3, 4, usage, 0, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (exited("exited", 0), "succeeded"),
        (exited("exited", 3), "failed"),
        (exited("signalled", signal=9), "failed"),
        (exited("timeout", signal=15), "timeout"),
        (exited("timeout", 0), "timeout"),
        (exited("stopped", signal=15), "cancelled"),
        (exited("start_failed"), "failed"),
        (exited("lost"), "lost"),
    ],
)
def test_the_outcome_of_an_end(end: Exited, state: str) -> None:
    outcome = job_launch.outcome(end, 9, "n")
    assert outcome is not None
    assert (outcome.job, outcome.attempt, outcome.decision, outcome.state) == (7, 2, 9, state)
    assert (outcome.exit_code, outcome.signal, outcome.reason) == (end.exit_code, end.signal, "why")
    assert outcome.usage == Usage(cpu_ns=5)


def test_what_never_began_has_no_outcome() -> None:
    assert job_launch.outcome(exited("never_started"), 9, "n") is None


def test_a_launch_that_failed_for_the_sake_of_the_node_is_no_failure_of_the_job() -> None:
    end = msgspec.structs.replace(exited("start_failed"), of_the_node=True)
    outcome = job_launch.outcome(end, 9, "n")
    assert outcome is not None and (outcome.state, outcome.job_state) == ("unlaunched", "pending")
    assert outcome.reason == "it could not be launched on node n: why"
    assert outcome.is_over and outcome.exit_code is None


def test_a_start_made_by_the_fake_scheduler_can_be_launched() -> None:
    assert job_launch.launch(start_of(TaskKey(1, 1, 0)), (), Home(), PLACE, True).argv == ("true",)


def test_a_job_is_bound_beside_its_devices() -> None:
    far = msgspec.structs.replace(NEAR, id="GPU-2", numa=2, near_cpus="8,9", near_memory=False)
    spec = JobSpec(("true",), gpu_milli=2000)
    made = job_launch.launch(start(spec), (NEAR, far), HOME, PLACE, False)
    assert (made.cpus, made.memory_nodes, made.numa_required) == ("0-3,8-9", "0", False)
    loose = job_launch.launch(start(spec), (GPU,), HOME, PLACE, False)
    assert (loose.cpus, loose.memory_nodes, loose.numa_required) == ("", "", False)
    strict = msgspec.structs.replace(spec, numa="require")
    assert job_launch.launch(start(strict), (NEAR,), HOME, PLACE, False).numa_required


def test_a_job_that_requires_cpus_beside_its_devices_does_not_start_without_them() -> None:
    spec = JobSpec(("true",), gpu_milli=1000, numa="require")
    why = "it requires CPUs beside its devices: device GPU-1: its node does not tell"
    with pytest.raises(BadRequest, match=why):
        job_launch.launch(start(spec), (GPU,), HOME, PLACE, False)
