# SPDX-License-Identifier: Apache-2.0
"""The commands of a node's owner: up, down, user, doctor, power, probe.

Imports `agent.supervise` and what lies below it; only the command line imports this folder.
"""
