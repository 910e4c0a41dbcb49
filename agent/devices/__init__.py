# SPDX-License-Identifier: Apache-2.0
"""The devices of one node: the record of a card, the registry, and the parts that vendors share.

The folders hold one vendor each, and the threads that read cards. This package imports nothing else
of `agent`; vendors never import each other.
"""
