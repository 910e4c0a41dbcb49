# SPDX-License-Identifier: Apache-2.0
"""Who is who: Ed25519 keys of processes and users, the broker's certificate, sealed files.

Imports nothing else of `mesh`.
"""
