# SPDX-License-Identifier: Apache-2.0
"""OTLP metrics as bytes, and the names of everything that is exported.

Imports nothing else of `probes`.
"""
