# SPDX-License-Identifier: Apache-2.0
"""The messages on the network: subjects, public requests and replies, commands, queries.

Imports `mesh.identity`; opens no connection.
"""
