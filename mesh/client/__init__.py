# SPDX-License-Identifier: Apache-2.0
"""The client library, and a benchmark of the submit path that uses it.

Imports `mesh.connection`, `mesh.wire` and `mesh.identity`, and nothing from the scheduler.
"""
