/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, queues, buffers, programs and kernels of the simulated driver. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

static void *made(void *object, cl_int *error)
{
	if (error)
		*error = object ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
	return object;
}

static void retain(struct sim_object *object)
{
	atomic_fetch_add_explicit(&object->references, 1, memory_order_relaxed);
}

/* Objects that refer to nothing else. */
#define RETAIN_AND_RELEASE(name, type)                                                             \
	static cl_int CL_API_CALL retain_##name(type object)                                       \
	{                                                                                          \
		retain(&object->object);                                                           \
		return CL_SUCCESS;                                                                 \
	}                                                                                          \
	static cl_int CL_API_CALL release_##name(type object)                                      \
	{                                                                                          \
		if (sim_let_go(&object->object))                                                   \
			free(object);                                                              \
		return CL_SUCCESS;                                                                 \
	}

RETAIN_AND_RELEASE(context, cl_context)
RETAIN_AND_RELEASE(program, cl_program)
RETAIN_AND_RELEASE(kernel, cl_kernel)
RETAIN_AND_RELEASE(queue, cl_command_queue)

static cl_context CL_API_CALL create_context(const cl_context_properties *properties,
					     cl_uint devices, const cl_device_id *ids,
					     void(CL_CALLBACK *notify)(const char *, const void *,
								       size_t, void *),
					     void *data, cl_int *error)
{
	return made(sim_make(sizeof(struct _cl_context)), error);
}

static cl_int CL_API_CALL context_info(cl_context context, cl_context_info what, size_t size,
				       void *value, size_t *size_ret)
{
	const cl_device_id device = &sim_device;
	const cl_uint one = 1, references = (cl_uint)context->object.references;

	switch (what) {
	case CL_CONTEXT_DEVICES:
		return sim_answer(&device, sizeof(device), size, value, size_ret);
	case CL_CONTEXT_NUM_DEVICES:
		return sim_answer(&one, sizeof(one), size, value, size_ret);
	case CL_CONTEXT_REFERENCE_COUNT:
		return sim_answer(&references, sizeof(references), size, value, size_ret);
	case CL_CONTEXT_PROPERTIES:
		return sim_answer(NULL, 0, size, value, size_ret);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
						 cl_command_queue_properties flags, cl_int *error)
{
	cl_command_queue queue = sim_make(sizeof(*queue));

	if (queue) {
		queue->context = context;
		queue->flags = flags;
	}
	return made(queue, error);
}

static cl_command_queue CL_API_CALL create_queue_with(cl_context context, cl_device_id device,
						      const cl_queue_properties *properties,
						      cl_int *error)
{
	cl_command_queue_properties flags = 0;

	for (; properties && *properties; properties += 2)
		if (*properties == CL_QUEUE_PROPERTIES)
			flags = properties[1];
	return create_queue(context, device, flags, error);
}

static cl_int CL_API_CALL queue_info(cl_command_queue queue, cl_command_queue_info what,
				     size_t size, void *value, size_t *size_ret)
{
	const cl_device_id device = &sim_device;
	const cl_uint references = (cl_uint)queue->object.references;

	switch (what) {
	case CL_QUEUE_CONTEXT:
		return sim_answer(&queue->context, sizeof(queue->context), size, value, size_ret);
	case CL_QUEUE_DEVICE:
		return sim_answer(&device, sizeof(device), size, value, size_ret);
	case CL_QUEUE_REFERENCE_COUNT:
		return sim_answer(&references, sizeof(references), size, value, size_ret);
	case CL_QUEUE_PROPERTIES:
		return sim_answer(&queue->flags, sizeof(queue->flags), size, value, size_ret);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes,
					void *from, cl_int *error)
{
	cl_mem buffer = sim_make(sizeof(*buffer));

	if (buffer) {
		buffer->context = context;
		buffer->bytes = bytes;
		buffer->host = calloc(1, bytes);
	}
	if (buffer && !buffer->host) {
		free(buffer);
		buffer = NULL;
	}
	return made(buffer, error);
}

static cl_int CL_API_CALL retain_buffer(cl_mem buffer)
{
	retain(&buffer->object);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL release_buffer(cl_mem buffer)
{
	if (sim_let_go(&buffer->object)) {
		free(buffer->host);
		free(buffer);
	}
	return CL_SUCCESS;
}

static cl_int CL_API_CALL buffer_info(cl_mem buffer, cl_mem_info what, size_t size, void *value,
				      size_t *size_ret)
{
	if (what != CL_MEM_SIZE)
		return CL_INVALID_VALUE;
	return sim_answer(&buffer->bytes, sizeof(buffer->bytes), size, value, size_ret);
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **texts,
					     const size_t *lengths, cl_int *error)
{
	cl_program program = sim_make(sizeof(*program));

	if (program)
		program->context = context;
	return made(program, error);
}

static cl_int CL_API_CALL build(cl_program program, cl_uint devices, const cl_device_id *ids,
				const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
				void *data)
{
	return CL_SUCCESS;
}

/* Every kernel that is asked for exists. */
static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error)
{
	cl_kernel kernel = sim_make(sizeof(*kernel));

	if (kernel) {
		kernel->context = program->context;
		snprintf(kernel->name, sizeof(kernel->name), "%s", name);
	}
	return made(kernel, error);
}

static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t size,
				       const void *value)
{
	if (index == 1 && size == sizeof(int) && value)
		kernel->length_ns = *(const int *)value;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL kernel_info(cl_kernel kernel, cl_kernel_info what, size_t size,
				      void *value, size_t *size_ret)
{
	const cl_uint two = 2;
	size_t bytes = 0;

	switch (what) {
	case CL_KERNEL_FUNCTION_NAME:
		while (kernel->name[bytes++])
			;
		return sim_answer(kernel->name, bytes, size, value, size_ret);
	case CL_KERNEL_NUM_ARGS:
		return sim_answer(&two, sizeof(two), size, value, size_ret);
	case CL_KERNEL_CONTEXT:
		return sim_answer(&kernel->context, sizeof(kernel->context), size, value, size_ret);
	default:
		return CL_INVALID_VALUE;
	}
}

void sim_fill_objects(struct _cl_icd_dispatch *table)
{
	table->clCreateContext = create_context;
	table->clRetainContext = retain_context;
	table->clReleaseContext = release_context;
	table->clGetContextInfo = context_info;
	table->clCreateCommandQueue = create_queue;
	table->clCreateCommandQueueWithProperties = create_queue_with;
	table->clRetainCommandQueue = retain_queue;
	table->clReleaseCommandQueue = release_queue;
	table->clGetCommandQueueInfo = queue_info;
	table->clCreateBuffer = create_buffer;
	table->clRetainMemObject = retain_buffer;
	table->clReleaseMemObject = release_buffer;
	table->clGetMemObjectInfo = buffer_info;
	table->clCreateProgramWithSource = create_program;
	table->clRetainProgram = retain_program;
	table->clReleaseProgram = release_program;
	table->clBuildProgram = build;
	table->clCreateKernel = create_kernel;
	table->clRetainKernel = retain_kernel;
	table->clReleaseKernel = release_kernel;
	table->clSetKernelArg = set_argument;
	table->clGetKernelInfo = kernel_info;
}
