# SPDX-License-Identifier: Apache-2.0
"""What tracing costs, measured from outside of the tracer.

Imports `probes.kernels`.
"""
