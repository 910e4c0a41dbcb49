# SPDX-License-Identifier: Apache-2.0
"""Measurement: BPF programs, GPU tracers, and the decoders of their records."""
