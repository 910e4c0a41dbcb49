# SPDX-License-Identifier: Apache-2.0
"""The parts of `stoker bench` beside the measurement itself: programs, counts, texts.

May import `render` and the benches of `mesh` and `scheduler`.
"""
