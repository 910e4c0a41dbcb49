# SPDX-License-Identifier: Apache-2.0
"""Scheduling decisions: nouns and policies around the deterministic core; no clock, no I/O."""
