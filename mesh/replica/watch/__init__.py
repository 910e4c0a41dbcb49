# SPDX-License-Identifier: Apache-2.0
"""The leader's watch over nodes: which are silent, which are given up, and who may enter."""
