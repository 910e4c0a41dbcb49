# SPDX-License-Identifier: Apache-2.0
"""The agent's side of the scheduler: connection, lease, telemetry, answers to queries.

Imports `agent.tracing`, `agent.jobs` and what lies below them.
"""
