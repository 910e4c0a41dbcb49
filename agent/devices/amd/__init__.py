# SPDX-License-Identifier: Apache-2.0
"""AMD GPUs, through AMD SMI, or through the files of amdgpu where ROCm is not installed.

It imports the parts of `agent.devices` that vendors share, never another vendor.
"""
