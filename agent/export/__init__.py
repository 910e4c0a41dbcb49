# SPDX-License-Identifier: Apache-2.0
"""What the node exports to OpenTelemetry collectors.

Imports `agent.state`.
"""
