# SPDX-License-Identifier: Apache-2.0
"""The devices of one node: what each vendor's driver says of its cards.

Imports nothing else of `agent`.
"""
