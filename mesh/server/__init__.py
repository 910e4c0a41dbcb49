# SPDX-License-Identifier: Apache-2.0
"""The scheduler process: it takes the requests of users and carries out the replica's effects.

Imports everything else in `mesh` except `mesh.client`.
"""
