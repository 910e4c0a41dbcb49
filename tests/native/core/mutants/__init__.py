# SPDX-License-Identifier: Apache-2.0
"""Small planted faults of the core, each of which the golden scripts or the oracle must notice."""
