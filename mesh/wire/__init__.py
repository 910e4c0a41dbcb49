# SPDX-License-Identifier: Apache-2.0
"""What crosses the network: subjects, public requests and replies, commands, queries.

Imports `mesh.identity`; knows no connection.
"""
