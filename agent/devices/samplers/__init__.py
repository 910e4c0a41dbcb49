# SPDX-License-Identifier: Apache-2.0
"""Threads that read each card at its own pace, and the values and histories they keep.

Imports the neutral parts of `agent.devices` and no vendor.
"""
