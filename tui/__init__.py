# SPDX-License-Identifier: Apache-2.0
"""What a person faces: tables, reports and the live view."""
