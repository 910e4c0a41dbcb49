# SPDX-License-Identifier: Apache-2.0
"""A leader's authority over nodes: its role, its commands and its lease answers."""
