# SPDX-License-Identifier: Apache-2.0
"""The command line as a person meets it: verbs, options, tables, reports, the live view.

A viewer imports `mesh` and what lies below it, never `agent` or `probes`. Of its rooms, `commands`
stands on `bench`, `demo`, `sim` and `top`, those on `calls`, then `options`, then `render`.
"""
