# SPDX-License-Identifier: Apache-2.0
"""Power and heat of a node's cards: who may draw how much, and the loop that sees to it."""
