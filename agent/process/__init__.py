# SPDX-License-Identifier: Apache-2.0
"""The parts of the agent's process: its loop around the core, effects, tasks, reports.

Imports every room of `agent` below the daemon; only `agent/daemon.py` imports it.
"""
