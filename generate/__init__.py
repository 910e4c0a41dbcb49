# SPDX-License-Identifier: Apache-2.0
"""What `make generate` runs: shared records are declared once, and their other forms written."""
