# SPDX-License-Identifier: Apache-2.0
"""AMD GPUs: through AMD SMI, or by the files of amdgpu where ROCm is not installed.

Imports the neutral parts of `agent.devices`, never another vendor.
"""
