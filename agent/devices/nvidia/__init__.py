# SPDX-License-Identifier: Apache-2.0
"""NVIDIA GPUs through NVML.

Imports the neutral parts of `agent.devices`, never another vendor.
"""
