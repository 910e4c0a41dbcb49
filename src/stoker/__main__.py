# SPDX-License-Identifier: Apache-2.0
"""`python -m stoker` is the same program as `stoker`."""

from stoker.main import main

main()
