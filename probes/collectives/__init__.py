# SPDX-License-Identifier: Apache-2.0
"""Ranks of one job that wait for each other: which process is which rank, who came last, and what
does not go on.

May import probes/calls and native.
"""
