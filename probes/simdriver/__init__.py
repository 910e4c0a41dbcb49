# SPDX-License-Identifier: Apache-2.0
"""Simulated GPU drivers: profiles of nodes, scripts of faults, and the libraries' places."""
