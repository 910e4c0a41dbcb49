# SPDX-License-Identifier: Apache-2.0
"""The options of the verbs: click types, parsers of quantities, selectors of jobs.

May import `render`, and nothing that talks to a node.
"""
