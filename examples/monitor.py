#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A monitor of NVIDIA cards with nothing but nvidia-ml-py.

On a machine with cards, and on one without (SIM), where 30 s under load pass at once:

    python monitor.py
    stoker sim driver --profile 8xH200 --load 0:0.9,0.5 --virtual --settle 30 -- python monitor.py

Prints a line a card, and exits with 1 if a card is hot, throttled by heat or does not answer.
What it does about faults can be rehearsed: `--fault FILE`, docs/operator/simulated-drivers.md.
"""

import sys

import pynvml as nvml

HOT_C = 85
HEAT = nvml.nvmlClocksThrottleReasonSwThermalSlowdown | nvml.nvmlClocksThrottleReasonHwSlowdown


def look(index):
    """One card: what it does, and what is wrong with it."""
    card = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(card)
    watts = nvml.nvmlDeviceGetPowerUsage(card) / 1000
    limit = nvml.nvmlDeviceGetEnforcedPowerLimit(card) / 1000
    celsius = nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU)
    busy = nvml.nvmlDeviceGetUtilizationRates(card).gpu
    wrong = [f"hotter than {HOT_C} C"] if celsius > HOT_C else []
    if nvml.nvmlDeviceGetCurrentClocksEventReasons(card) & HEAT:
        wrong.append("throttled by heat")
    return f"{name}  {busy} % busy, {watts:.0f} of {limit:.0f} W, {celsius} C", wrong


def main():
    nvml.nvmlInit()
    failed = 0
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            says, wrong = look(index)
        except nvml.NVMLError as error:
            says, wrong = "-", [str(error)]
        print(f"{index}  {says}  {', '.join(wrong) or 'ok'}")
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
