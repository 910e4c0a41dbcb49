# SPDX-License-Identifier: Apache-2.0
"""The devices of one node: the record of a card, the registry, and what every vendor shares.

The folders hold one vendor each, and the threads that sample. Imports nothing else of `agent`.
"""
