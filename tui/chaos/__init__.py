# SPDX-License-Identifier: Apache-2.0
"""Faults of a real cluster on hosts made for it, what its users saw, and how long each fault cost.

May import `demo`, `calls` and what lies below them.
"""
