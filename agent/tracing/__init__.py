# SPDX-License-Identifier: Apache-2.0
"""Traces of this node's jobs: modes, windows, governor, what tracers cost and miss.

Imports `agent.jobs`, `agent.export` and what lies below them.
"""
