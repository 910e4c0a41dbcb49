# SPDX-License-Identifier: Apache-2.0
"""Threads that read each card at a fixed pace, and the values and histories they keep.

They import the parts of `agent.devices` that vendors share, and no vendor.
"""
