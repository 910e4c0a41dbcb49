# SPDX-License-Identifier: Apache-2.0
"""Alerts: rules on the series of a node, what they come to, and who is told.

The judge is pure; the watch reads the series, keeps the state and tells the sinks.
"""
