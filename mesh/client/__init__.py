# SPDX-License-Identifier: Apache-2.0
"""The client library, and what measures the submit path with it.

Imports `mesh.connection`, `mesh.wire` and `mesh.identity`; nothing of the scheduler.
"""
