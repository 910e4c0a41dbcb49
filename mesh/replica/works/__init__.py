# SPDX-License-Identifier: Apache-2.0
"""The requests of one log entry: what they ask of the core, and how each is answered."""
