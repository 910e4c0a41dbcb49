# SPDX-License-Identifier: Apache-2.0
"""The commands of a node's owner: up, down, user, doctor, power, probe.

Imports `agent.supervise` and what lies below it; nothing imports this folder but the command line.
"""
