# SPDX-License-Identifier: Apache-2.0
"""The way of a host into a cluster that was made elsewhere: join tokens and the registrar.

Stands on `agent.supervise`, which knows the broker's configuration.
"""
