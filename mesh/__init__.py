# SPDX-License-Identifier: Apache-2.0
"""Everything that crosses the network: subjects, codec, identities, the log and its replicas."""
