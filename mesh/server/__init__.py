# SPDX-License-Identifier: Apache-2.0
"""The scheduler process: takes users' requests, carries out what the replica wants done.

Imports everything else of `mesh` except `mesh.client`.
"""
