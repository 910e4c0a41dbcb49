# SPDX-License-Identifier: Apache-2.0
"""Reports on which measurements this machine allows, and the checks of a GPU machine.

Imports everything else of `probes`.
"""
