# SPDX-License-Identifier: Apache-2.0
"""Facts of the host about devices: PCI topology, device files, and processes by /proc.

Vendors read them here; this room imports the record of a card and no vendor.
"""
