# SPDX-License-Identifier: Apache-2.0
"""Intel GPUs through Level Zero Sysman.

It imports the parts of `agent.devices` that vendors share, never another vendor.
"""
