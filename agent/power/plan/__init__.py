# SPDX-License-Identifier: Apache-2.0
"""Decisions of the power loop: readings in, actions out; no clock, device, file or thread.

Imports nothing else of `agent`.
"""
