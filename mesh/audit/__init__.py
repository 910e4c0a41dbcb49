# SPDX-License-Identifier: Apache-2.0
"""The room of the audit: the trail of all entries of the log, checked by whoever reads it.

It may import the replica, whose state it makes again, and nothing of a server.
"""
