# SPDX-License-Identifier: Apache-2.0
"""The simulator verbs, `stoker sim NAME`, that replay a trace through the scheduler's core.

May import `options`, `render` and `scheduler.sim`, which does the simulation; here are files,
processes and tables.
"""
