# SPDX-License-Identifier: Apache-2.0
"""The network side of stoker: subjects, codec, identities, the log and its replicas."""
