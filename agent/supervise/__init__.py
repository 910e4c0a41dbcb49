# SPDX-License-Identifier: Apache-2.0
"""The supervisor and its processes: start, adoption, restart, shutdown, what is left behind.

Imports `agent.state`, `agent.devices` and `agent.power`; jobs are the agent's own.
"""
