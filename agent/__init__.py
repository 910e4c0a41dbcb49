# SPDX-License-Identifier: Apache-2.0
"""The node agent: what one machine does with decisions, and what it reports back."""
