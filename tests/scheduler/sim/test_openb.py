# SPDX-License-Identifier: Apache-2.0
"""The trace's CSV files: what a row means, and one clear line for each way it can be wrong."""

from __future__ import annotations

import re

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler.sim.openb import Machine, TraceTask, check_times, read_machines, read_tasks

NODES = "sn,cpu_milli,memory_mib,gpu,model"
SHORT = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
LONG = f"{SHORT},gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"


def tasks(*rows: str, header: str = LONG) -> list[TraceTask]:
    return read_tasks([header, *rows], "pods.csv")


def test_machines_come_by_name() -> None:
    rows = [NODES, "b,8000,1024,1,T4", "a,96000,2048,8,G2", "c,4000,512,0,"]
    assert read_machines(rows, "nodes.csv") == [
        Machine("a", 96_000, 2 << 30, 8, "G2"),
        Machine("b", 8_000, 1 << 30, 1, "T4"),
        Machine("c", 4_000, 512 << 20, 0, ""),
    ]


def test_a_task_with_all_columns() -> None:
    row = "p,6000,12288,1,460,V100M32|T4|V100M32,LS,Running,10,25,11"
    (task,) = tasks(row)
    assert task == TraceTask(6000, 12 << 30, 1, 460, ("T4", "V100M32"), 10, 25)
    assert task.demand_milli == 460


def test_a_task_of_five_columns_fits_any_model_and_has_no_times() -> None:
    (task,) = tasks("p,12000,16384,8,1000", header=SHORT)
    assert task == TraceTask(12_000, 16 << 30, 8, 1000)
    assert task.demand_milli == 8000


def test_a_task_without_gpu_asks_for_no_model() -> None:
    (task,) = tasks("p,1000,1024,0,0,T4,LS,Running,1,2,1")
    assert (task.gpus, task.gpu_milli, task.models) == (0, 0, ())


def test_columns_are_found_by_name_after_a_mark_of_order() -> None:
    (task,) = read_tasks(["\ufeffgpu_milli,name,num_gpu,memory_mib,cpu_milli", "5,p,1,6,7"], "f")
    assert task == TraceTask(7, 6 << 20, 1, 5)


def test_blank_lines_are_no_rows() -> None:
    assert len(tasks("", "p,1,1,0,0,,,,,,", "")) == 1


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("p,x,1,0,0,,,,,,", "pods.csv:2: cpu_milli is 'x'"),
        ("p,-1,1,0,0,,,,,,", "pods.csv:2: cpu_milli is '-1'"),
        ("p,1,1,17,1000,,,,,,", "pods.csv:2: num_gpu is '17', not a number from 0 to 16"),
        ("p,1,1,1,1001,,,,,,", "pods.csv:2: gpu_milli is '1001'"),
        ("p,1,1,1,0,,,,,,", "pods.csv:2: gpu_milli is 0 and num_gpu 1"),
        ("p,1,1,2,500,,,,,,", "pods.csv:2: a share of 500/1000 of 2 GPUs"),
        ("p,1,1,1", "pods.csv:2: 4 fields where the header has 11"),
        ("p,1,1,0,0,,,,9,8,", "pods.csv:2: deleted at 8, before it was created at 9"),
        ("p,1,1,0,0,,,,1.5,8,", "pods.csv:2: creation_time is '1.5'"),
        ("p,1,1,1,10,A|B|C|D|E|F|G|H|I,,,,,", "pods.csv:2: 9 GPU models, at most 8"),
    ],
)
def test_a_bad_row_is_one_line_with_its_place(row: str, says: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(says)):
        tasks(row)


def test_the_line_is_that_of_the_bad_row() -> None:
    with pytest.raises(BadRequest, match=re.escape("pods.csv:4: ")):
        tasks("p,1,1,0,0,,,,,,", "", "q,1,1")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "nodes.csv:1: there is no column sn, cpu_milli, memory_mib, gpu, model"),
        ([NODES], "nodes.csv: no rows"),
        ([NODES, "a,1,1,1,T4", "a,1,1,1,T4"], "nodes.csv: 2 nodes have only 1 names"),
        ([NODES, "a,1,1,0,"], "nodes.csv: none of 1 nodes has a GPU"),
        ([NODES, "a,1,1,1,"], "nodes.csv:2: model is empty"),
        ([NODES, "a,1,1,65,T4"], "nodes.csv:2: gpu is '65'"),
    ],
)
def test_bad_machines_are_refused_by_name(lines: list[str], says: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(says)):
        read_machines(lines, "nodes.csv")


def test_departures_need_times() -> None:
    check_times([TraceTask(1, 1, 0, 0, (), 1, 2)], "f")
    with pytest.raises(BadRequest, match="f: a task has no creation_time"):
        check_times([TraceTask(1, 1, 0, 0, (), 1, 2), TraceTask(1, 1, 0, 0, (), 1)], "f")
