# SPDX-License-Identifier: Apache-2.0
"""Ad-hoc BCC probes: their source, their process, its program.

Imports nothing else of `probes`.
"""
