# SPDX-License-Identifier: Apache-2.0
"""The export of a node's metrics: to OpenTelemetry collectors, and as the page for Prometheus.

Imports `agent.state`, `agent.jobs` and `agent.devices`.
"""
