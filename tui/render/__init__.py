# SPDX-License-Identifier: Apache-2.0
"""Text for people: tables, reports, quantities with units, sparklines, untrusted text made safe.

Imports no other room of `tui`; all but `text` and `progress` turn values into text and do no I/O.
"""
