# SPDX-License-Identifier: Apache-2.0
"""Recordings: what a cluster said of itself for some time, in one file or in a ring of them.

May import `client` and everything below it; whoever shows a recording stands above.
"""
