# SPDX-License-Identifier: Apache-2.0
"""The views of `stoker top`, one file each; `catalogue.py` has them all by name."""
