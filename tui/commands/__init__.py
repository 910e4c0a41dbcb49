# SPDX-License-Identifier: Apache-2.0
"""The verbs: each module defines click commands, which parse, call and print.

May import every other room of `tui`; only the command line's table of verbs names these modules.
"""
