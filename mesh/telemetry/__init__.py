# SPDX-License-Identifier: Apache-2.0
"""Telemetry at the broker: what the scheduler publishes, and the memory streams that keep it.

Imports `mesh.connection` and `mesh.wire`. Nothing here waits for an acknowledgement of a publish.
"""
