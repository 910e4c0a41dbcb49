# SPDX-License-Identifier: Apache-2.0
"""A simulated cluster: shipped schedulers and agents in a world whose faults a seed determines.

This room joins the schedulers' part of `mesh/sim` with agents, users, faults and auditors.
"""
