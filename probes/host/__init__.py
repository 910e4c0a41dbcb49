# SPDX-License-Identifier: Apache-2.0
"""The host as BPF programs see it: threads, processes, pressure, notices.

Imports `probes.catalogue`.
"""
