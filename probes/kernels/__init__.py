# SPDX-License-Identifier: Apache-2.0
"""GPU kernels of one job: trace segments, their summary, clocks, the tracers' environment.

Imports `probes.calls` and `probes.host`.
"""
