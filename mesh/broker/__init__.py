# SPDX-License-Identifier: Apache-2.0
"""The embedded broker: the configuration of nats-server, its users, what each user may take.

Imports `mesh.wire` and `mesh.identity`; starts no process.
"""
