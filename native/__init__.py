# SPDX-License-Identifier: Apache-2.0
"""The C half: scheduler core, rings, histograms, fold, BPF loader, spawner and watchdog.

Three extension modules and not one, so that the scheduler never loads libbpf and a build
without libbpf still schedules: `_core` (decisions), `_trace` (rings to histograms), `_bpf`.
"""
