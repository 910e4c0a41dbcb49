# SPDX-License-Identifier: Apache-2.0
"""The governor that keeps the cost of tracing under its budget.

Pure; imports nothing else of `probes`.
"""
