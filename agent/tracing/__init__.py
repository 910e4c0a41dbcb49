# SPDX-License-Identifier: Apache-2.0
"""Traces of this node's jobs: modes, windows, the governor, the tracers' cost and gaps.

Imports `agent.jobs`, `agent.export` and what lies below them.
"""
