# SPDX-License-Identifier: Apache-2.0
"""The health of a node's cards: signals, verdicts, and the actions that follow."""
