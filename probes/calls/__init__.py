# SPDX-License-Identifier: Apache-2.0
"""Calls of jobs into libraries, counted by uprobes: libraries, sites, their costs.

Imports `probes.cost` and `probes.catalogue`.
"""
