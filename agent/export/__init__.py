# SPDX-License-Identifier: Apache-2.0
"""The export of a node's metrics to OpenTelemetry collectors.

Imports `agent.state`.
"""
