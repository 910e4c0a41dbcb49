# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of tracing's cost, measured from outside the tracer.

Imports `probes.kernels`.
"""
