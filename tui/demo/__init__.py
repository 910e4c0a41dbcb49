# SPDX-License-Identifier: Apache-2.0
"""A private node for the length of a demo or a bench, and the job that `stoker demo` runs there.

May import `calls` and what lies below it.
"""
