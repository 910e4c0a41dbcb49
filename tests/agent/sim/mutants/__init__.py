# SPDX-License-Identifier: Apache-2.0
"""Faults planted in the shipped Python, which the simulated cluster must notice."""
