# SPDX-License-Identifier: Apache-2.0
"""Settings of cards and limits of jobs: read, written, given back, and recorded before a change.

Imports `agent.power.plan` for the names of ranges, and the folders below `agent.power`.
"""
