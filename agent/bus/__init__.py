# SPDX-License-Identifier: Apache-2.0
"""The node-local bus: records at full rate for subscribers on this machine, over ZeroMQ.

Knows no job and no trace: who publishes says for which Unix user.
"""
