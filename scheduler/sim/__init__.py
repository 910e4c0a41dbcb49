# SPDX-License-Identifier: Apache-2.0
"""Simulators in virtual time: traces and models in, figures out; every decision is the core's."""
