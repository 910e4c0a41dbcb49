# SPDX-License-Identifier: Apache-2.0
"""The life of a job at this node: launch, attempts, outcome, folder, output.

Imports `agent.state` and `agent.devices`.
"""
