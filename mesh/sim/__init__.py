# SPDX-License-Identifier: Apache-2.0
"""The simulated surroundings of schedulers: time, network, clocks, and a log with real weaknesses.

Everything here is a function of a seed; nothing reads a clock, a socket or a file.
"""
