# SPDX-License-Identifier: Apache-2.0
"""The program behind `make generate`: it writes every form of a record that is declared once."""
