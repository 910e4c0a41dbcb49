# SPDX-License-Identifier: Apache-2.0
"""A replica's view of the log: what it reads, holds, appends and compacts."""
