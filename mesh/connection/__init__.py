# SPDX-License-Identifier: Apache-2.0
"""Connections to the broker: of clients, of the node's own processes, of the scheduler for users.

Imports `mesh.wire` and `mesh.identity`.
"""
