# SPDX-License-Identifier: Apache-2.0
"""A worker of torch.distributed, unchanged by anything that stoker asks for: all ranks add up a
tensor over gloo, and each says what it got, in one write."""

from __future__ import annotations

import os

import torch
from torch import distributed

distributed.init_process_group("gloo")
rank, ranks = distributed.get_rank(), distributed.get_world_size()
values = torch.full((1000,), float(10**rank), dtype=torch.float64)
distributed.all_reduce(values)
said = (rank, ranks, os.environ["LOCAL_RANK"], os.environ["STOKER_NODE"], int(values[0]))
os.write(1, (" ".join(map(str, said)) + "\n").encode())
distributed.barrier()
distributed.destroy_process_group()
