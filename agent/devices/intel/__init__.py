# SPDX-License-Identifier: Apache-2.0
"""Intel GPUs through Level Zero Sysman.

Imports the neutral parts of `agent.devices`, never another vendor.
"""
