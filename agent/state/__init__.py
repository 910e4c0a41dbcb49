# SPDX-License-Identifier: Apache-2.0
"""The state folder of one node and its configuration: files, settings, labels, positions.

Imports nothing else of `agent`.
"""
