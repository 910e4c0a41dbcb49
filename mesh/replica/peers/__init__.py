# SPDX-License-Identifier: Apache-2.0
"""The other replicas: pledges, confirmations, comparison and the transfer of state."""
