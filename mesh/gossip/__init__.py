# SPDX-License-Identifier: Apache-2.0
"""The gossip mesh: the client of a Serf agent, its members, its keys.

Nothing here runs a process or decides about a node: gossip raises suspicion and no more.
"""
