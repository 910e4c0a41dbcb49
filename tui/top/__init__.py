# SPDX-License-Identifier: Apache-2.0
"""The live view of `stoker top`: a pure model of the screen, a table widget, the application.

May import `render`; the verb passes in the function that reads the cluster.
"""
