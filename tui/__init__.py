# SPDX-License-Identifier: Apache-2.0
"""The command line as a person meets it: verbs, options, tables, reports, the live view.

It imports `mesh` and what lies below it, never `agent` or `probes`. Its folders form layers, from
the top: `commands`; `bench`, `demo`, `sim` and `top`; `calls`; `options`; `render`. A folder
imports only those of lower layers.
"""
