# SPDX-License-Identifier: Apache-2.0
"""The file of a node's settings, config.toml: its tables, its faults, and where each value is from.

Each process reads its own tables by itself; what is here sees the whole file.
"""
