# SPDX-License-Identifier: Apache-2.0
# fmt: off
# ruff: noqa: I001
"""The flags of `run` and `submit`.

Written by `make generate` from scheduler/job_options.toml; change that file instead.
"""

from __future__ import annotations

from typing import Final

import click

from stoker.tui.options.quantity import (
    ARRAY, CPUS, DEVICE_MEM, ESTIMATE, GPUS, GPU_MEM, IDS, INPUT, JOBS, PLACEMENT, SIZE, SPAN,
    SPOOL, TIME, WHOLE_S,
)

FLAGS: Final = (
    click.option("--gpus", type=GPUS, default="0", help="GPUs: 2, or a share of one: 0.5, 5m."),
    click.option(
        "--device-kind", type=click.Choice(["gpu", "cpu", "any"]), default="gpu",
        show_default=True,
        help="Devices that --gpus counts; cpu is an OpenCL device of the CPU (PoCL).",
    ),
    click.option(
        "--vendor", "vendors", multiple=True, metavar="NAME",
        help="Only devices of this vendor; repeat for alternatives.",
    ),
    click.option(
        "--tasks", type=click.IntRange(1, 64), default=1, help="Run so many of it as one gang.",
    ),
    click.option(
        "--device-mem", type=DEVICE_MEM, help="Only devices with this much memory in all: 40G.",
    ),
    click.option(
        "--min-compute", "compute_least", default="", metavar="X.Y",
        help="Only NVIDIA devices with this compute capability at least: 8.0.",
    ),
    click.option(
        "--tasks-per-node", type=click.IntRange(0, 64), default=0,
        help="Exactly so many tasks on each node.",
    ),
    click.option(
        "--arch", "archs", multiple=True, metavar="NAME",
        help="Only this architecture: gfx942 or sm_90; repeat for others.",
    ),
    click.option(
        "--driver", "drivers", multiple=True, metavar="VERSION",
        help="Only devices with this driver: '>=550' or 555.42; all must hold.",
    ),
    click.option(
        "--nodes", type=click.IntRange(0, 64), default=0,
        help="Divide the tasks evenly among so many nodes.",
    ),
    click.option(
        "--partition-profile", "profiles", multiple=True, metavar="NAME",
        help="Only partitions of this profile: 1g.10gb; repeat for others.",
    ),
    click.option(
        "--prefer", multiple=True, metavar="TERM",
        help="Prefer such devices and take others while none is free.",
    ),
    click.option(
        "--device-ids", type=IDS, default="",
        help="Prefer these devices: 0,1 or ids; see --device-ids-mode.",
    ),
    click.option(
        "--device-ids-mode", type=click.Choice(["prefer", "require"]), default="prefer",
        show_default=True, help="Whether other devices will do.",
    ),
    click.option(
        "--mix-vendors", is_flag=True, help="Allow devices of several vendors in one job.",
    ),
    click.option(
        "--exclusivity", type=click.Choice(["exclusive", "shared", "mig"]), default=None,
        help="Whole cards, a part of one, or partitions.",
    ),
    click.option(
        "--topology", type=click.Choice(["none", "preferred", "required"]), default="none",
        show_default=True, help="Whether its devices share a fast link (NVLink, XGMI).",
    ),
    click.option(
        "--min-link-gbps", type=click.IntRange(1, 65535),
        help="GB/s that the link has at least, both directions together: 300.",
    ),
    click.option(
        "--numa", type=click.Choice(["none", "prefer", "require"]), default="prefer",
        show_default=True, help="Whether it gets the CPUs and memory beside its devices.",
    ),
    click.option(
        "--within", default="", metavar="LEVEL",
        help="All tasks of a gang on nodes of one rack, or whatever label LEVEL is.",
    ),
    click.option(
        "--prefer-within", multiple=True, metavar="LEVEL",
        help="As --within, while that can be; the widest LEVEL first.",
    ),
    click.option("--cpus", type=CPUS, help="CPU limit: 2, 0.5."),
    click.option("--mem", type=SIZE, help="Memory limit: 512M, 4G."),
    click.option("--pids", type=click.IntRange(1, 4194304), help="Limit of processes and threads."),
    click.option("--time", "time_s", type=TIME, help="Time limit: 90s, 2h, 1:30:00."),
    click.option(
        "--grace", "grace_s", type=SPAN, default=5.0, help="Time to end after SIGTERM: 30s.",
    ),
    click.option(
        "--priority", type=click.IntRange(-100, 100), default=0, show_default=True,
        help="Jobs of a higher one go first.",
    ),
    click.option("--queue", default="", metavar="NAME", help="Queue to wait in."),
    click.option("--mpi", is_flag=True, help="Run it in rank 0; its mpirun starts in all."),
    click.option(
        "--placement", type=PLACEMENT, default=None,
        help="Policy for choosing devices: binpack, spread, least-loaded, ...",
    ),
    click.option(
        "--gpu-model", "--model", "models", multiple=True, metavar="TEXT",
        help="Only this model, or one with this in its name; repeat for others.",
    ),
    click.option("--gpu-mem", type=GPU_MEM, help="Memory to reserve on each device: 16G."),
    click.option("--same-link", is_flag=True, help="Only devices that share a fast link."),
    click.option(
        "--constraint", "--node-label", "require", multiple=True, metavar="K=V",
        help="Only nodes with this label; repeat to require several.",
    ),
    click.option("--avoid", multiple=True, metavar="K=V", help="Only nodes without this label."),
    click.option("--tolerate", multiple=True, metavar="K=V", help="Allow nodes with this taint."),
    click.option("--group", default="", metavar="NAME", help="Group for --attract and --repel."),
    click.option("--attract", is_flag=True, help="Run only where a job of the group runs, if any."),
    click.option("--repel", is_flag=True, help="Never run where a job of the group runs."),
    click.option("--time-estimate", "estimate_s", type=ESTIMATE, help="Expected run time: 30m."),
    click.option(
        "--after", type=JOBS, multiple=True,
        help="Start when these jobs have succeeded: 7, or 7,9.",
    ),
    click.option(
        "--after-any", type=JOBS, multiple=True,
        help="Start when these jobs have ended in any way.",
    ),
    click.option(
        "--after-fail", type=JOBS, multiple=True,
        help="Start when these jobs have failed, or ended otherwise than well.",
    ),
    click.option(
        "--array", type=ARRAY, default="",
        help="Submit a job for each index: 0-9, 0-9:2, 1,5; 0-9%2: two at a time.",
    ),
    click.option(
        "--restart", type=click.Choice(["never", "on-node-loss", "always"]), default=None,
        help="After which ends the job is tried again.",
    ),
    click.option(
        "--rank-trouble", type=click.Choice(["none", "warn", "restart", "cordon"]), default="warn",
        show_default=True, help="What follows when a rank is slow or does not come.",
    ),
    click.option(
        "--rank-patience", "rank_patience_s", type=WHOLE_S, default=60,
        help="How long a rank may keep the others waiting: 30s.",
    ),
    click.option(
        "--checkpoint-signal", type=click.Choice(["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"]),
        default="TERM", show_default=True,
        help="Signal to save its work before a move or preemption.",
    ),
    click.option(
        "--retries", type=click.IntRange(0, 10), default=0, help="Attempts after a failed one.",
    ),
    click.option("--backoff", "backoff_s", type=WHOLE_S, help="Pause before the first retry: 10s."),
    click.option(
        "--preemptible", is_flag=True, help="Let it be stopped to make room; it waits again.",
    ),
    click.option("--preemptor", is_flag=True, help="Let it stop preemptible jobs to make room."),
    click.option(
        "--min-run", "min_run_s", type=WHOLE_S,
        help="Run at least this long before a preemption: 10m.",
    ),
    click.option("--name", default="", help="A name to find the job by."),
    click.option(
        "--trace", type=click.Choice(["off", "dormant", "governed", "full"]), default="governed",
        show_default=True, help="How much of the job's GPU work to record.",
    ),
    click.option(
        "--env", "env", multiple=True, metavar="K[=V]",
        help="Set a variable, or copy this shell's.",
    ),
    click.option("--env-all", is_flag=True, help="Copy every variable of this shell."),
    click.option("--cwd", default=None, help="Folder to run in. [default: the current one]"),
    click.option("--idempotency-key", default="", help="Make no second job for the same key."),
    click.option(
        "--spool-output", "spool_output_bytes", type=SPOOL,
        help="Keep this much of each stream with the cluster: 4M.",
    ),
    click.option("--stdin", "stdin_file", type=INPUT, help="Use this file as the job's stdin."),
)
"""The options, in the order of --help."""

FIELDS: Final = {
    "gpus": "gpu_milli",
    "cpus": "cpu_milli",
    "mem": "memory_bytes",
    "time_s": "time_limit_s",
    "stdin_file": "stdin",
    "gpu_mem": "device_memory_bytes",
    "device_mem": "device_memory_least_bytes",
}
"""Arguments of a verb whose field of the request has another name."""

PLACEMENTS: Final = (
    "best", "fgd", "binpack", "spread", "least-busy", "random", "cost-optimized", "power",
    "thermal", "least-loaded", "contiguous", "fastest",
)
