# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a node's cards, and what is done about it."""
