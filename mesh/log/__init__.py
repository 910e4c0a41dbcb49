# SPDX-License-Identifier: Apache-2.0
"""The replicated log over a JetStream stream: entries, their chain, their time, outages.

Imports `mesh.connection` and its dependencies; does not interpret entries.
"""
