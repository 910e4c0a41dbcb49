# SPDX-License-Identifier: Apache-2.0
"""The power loop on simulated nodes (SIM), compared with other policies and with a bound.

Imports `agent.power.plan` and the simulators of `scheduler.sim`; nothing here touches a device.
"""
