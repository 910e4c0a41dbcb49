# SPDX-License-Identifier: Apache-2.0
"""The embedded broker: the configuration of nats-server, its users and the budgets of users.

Imports `mesh.wire` and `mesh.identity`; starts no process.
"""
