# SPDX-License-Identifier: Apache-2.0
"""Connections to the broker by clients, by the node's processes, and by the scheduler for users.

Imports `mesh.wire` and `mesh.identity`.
"""
