# SPDX-License-Identifier: Apache-2.0
"""What is measured: BPF programs, GPU tracers, and the decoders of their records."""
