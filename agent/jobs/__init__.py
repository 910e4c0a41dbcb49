# SPDX-License-Identifier: Apache-2.0
"""A job's life at this node: launch, attempts, outcome, folder, output.

Imports `agent.state` and `agent.devices`.
"""
