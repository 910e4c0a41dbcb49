# SPDX-License-Identifier: Apache-2.0
"""Identities: Ed25519 keys of processes and users, the broker's certificate, sealed files.

Imports nothing else from `mesh`.
"""
