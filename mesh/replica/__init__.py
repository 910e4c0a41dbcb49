# SPDX-License-Identifier: Apache-2.0
"""One replica of the scheduler without I/O: leadership, state, appends, snapshots, waiters.

Imports `mesh.log` and its dependencies; sockets and clocks belong to `mesh.server`.
"""
