# SPDX-License-Identifier: Apache-2.0
"""What can be measured on this machine, and the checks of a GPU machine.

Imports everything else of `probes`.
"""
