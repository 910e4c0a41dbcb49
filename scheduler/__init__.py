# SPDX-License-Identifier: Apache-2.0
"""Decisions only: nouns and policies around the deterministic core; no clock, no chance, no I/O."""
