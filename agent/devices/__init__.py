# SPDX-License-Identifier: Apache-2.0
"""The devices of one node: the record of a card, the registry, and the parts that vendors share.

The folders hold one vendor each, the threads that read cards, and facts of the host. This package
imports nothing else of `agent`; vendors never import each other.
"""
