# SPDX-License-Identifier: Apache-2.0
"""`python -m stoker` is the same program as `stoker`."""

from stoker.entry import main

main()
