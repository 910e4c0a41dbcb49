# SPDX-License-Identifier: Apache-2.0
"""stoker: runs GPU jobs on a node, and says what each GPU is doing and why.

Everything below imports in one direction only (see docs/developer/architecture.md).
"""

__version__ = "0.1.0"
