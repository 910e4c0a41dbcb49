# SPDX-License-Identifier: Apache-2.0
"""NVIDIA GPUs through NVML.

It imports the parts of `agent.devices` that vendors share, never another vendor.
"""
