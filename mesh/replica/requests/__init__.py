# SPDX-License-Identifier: Apache-2.0
"""The requests of users to a replica, from the message to the works of an entry."""
