# SPDX-License-Identifier: Apache-2.0
"""The supervisor and its processes: start, adoption, restart, shutdown, leftovers.

Imports `agent.state`, `agent.devices` and `agent.power`; the agent alone has jobs.
"""
