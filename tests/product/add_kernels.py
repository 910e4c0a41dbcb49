# SPDX-License-Identifier: Apache-2.0
"""A job of a few tests: 37 launches of one small OpenCL kernel through pyopencl."""

import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
source = "__kernel void add(__global float *x) { x[get_global_id(0)] += 1; }"
kernel = cl.Kernel(cl.Program(context, source).build(), "add")
x = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
for _ in range(37):
    kernel(queue, (1024,), None, x)
queue.finish()
