#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A CUDA job: y = a * x + y, launched many times through cuda-python, checked on the host.

Its last line is a JSON object: how many kernels it launched and their time by CUDA events.
Needs the packages cuda-python and numpy, and an NVIDIA driver; no CUDA toolkit.
"""

import json
import sys

import numpy as np
from cuda.bindings import driver, nvrtc

LAUNCHES = int(sys.argv[1]) if len(sys.argv) > 1 else 997
COUNT, BLOCK = 1 << 20, 256
SOURCE = b"""
extern "C" __global__ void saxpy(float a, const float *x, float *y, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
"""


def check(result):
    """The value of a CUDA call; its error ends the program by name."""
    error, *values = result
    if error != type(error)(0):
        sys.exit(f"{type(error).__name__}: {error.name}")
    return values[0] if len(values) == 1 else values


def compile_for(device):
    attribute = driver.CUdevice_attribute
    parts = (
        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    )
    major, minor = (check(driver.cuDeviceGetAttribute(part, device)) for part in parts)
    program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"saxpy.cu", 0, [], []))
    option = f"--gpu-architecture=compute_{major}{minor}".encode()
    check(nvrtc.nvrtcCompileProgram(program, 1, [option]))
    image = b" " * check(nvrtc.nvrtcGetPTXSize(program))
    check(nvrtc.nvrtcGetPTX(program, image))
    ptx = np.frombuffer(image, np.uint8)  # kept in a name: CUDA reads it through a bare address
    module = check(driver.cuModuleLoadData(ptx.ctypes.data))
    return check(driver.cuModuleGetFunction(module, b"saxpy"))


def upload(values):
    pointer = check(driver.cuMemAlloc(values.nbytes))
    check(driver.cuMemcpyHtoD(pointer, values.ctypes.data, values.nbytes))
    return pointer


def main():
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    context = check(driver.cuDevicePrimaryCtxRetain(device))
    check(driver.cuCtxSetCurrent(context))
    kernel = compile_for(device)
    x, y = np.ones(COUNT, np.float32), np.zeros(COUNT, np.float32)
    on_device = upload(x), upload(y)
    values = [np.array(2.0, np.float32), *(np.array(int(p), np.uint64) for p in on_device)]
    values.append(np.array(COUNT, np.uint32))
    arguments = np.array([value.ctypes.data for value in values], np.uint64)
    begin, end = (check(driver.cuEventCreate(0)) for _ in range(2))
    check(driver.cuEventRecord(begin, 0))
    for _ in range(LAUNCHES):
        grid = -(-COUNT // BLOCK)
        check(
            driver.cuLaunchKernel(kernel, grid, 1, 1, BLOCK, 1, 1, 0, 0, arguments.ctypes.data, 0)
        )
    check(driver.cuEventRecord(end, 0))
    check(driver.cuEventSynchronize(end))
    check(driver.cuMemcpyDtoH(y.ctypes.data, on_device[1], y.nbytes))
    if not np.all(y == 2.0 * LAUNCHES):
        sys.exit(f"wrong result: {y[0]} instead of {2.0 * LAUNCHES}")
    total_ms = check(driver.cuEventElapsedTime(begin, end))
    print(json.dumps({"launches": LAUNCHES, "total_ns": round(total_ms * 1e6)}))


if __name__ == "__main__":
    main()
