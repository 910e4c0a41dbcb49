# SPDX-License-Identifier: Apache-2.0
"""One replica of the scheduler without I/O: `replica.py` joins its rooms.

Imports `mesh.log` and its dependencies; sockets and clocks belong to `mesh.server`.
"""
