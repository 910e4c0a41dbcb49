# SPDX-License-Identifier: Apache-2.0
"""The requests that verbs send to a node, one coroutine each, and the plain rows they return.

May import the rooms `options` and `render`, and the client of `mesh`; nothing here parses a flag.
"""
