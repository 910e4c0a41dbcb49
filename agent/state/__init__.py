# SPDX-License-Identifier: Apache-2.0
"""The state folder of one node and its configuration: files, settings, labels, positions,
and the file of appended records on which `agent.jobs` builds its own.

Imports nothing else of `agent`.
"""
