/* SPDX-License-Identifier: Apache-2.0 */
/* stoker-opencl-list: every OpenCL device of this machine as one JSON array on standard output.
 *
 * The agent's inventory runs it in a process of its own, because a driver may hang or crash while
 * it is queried. A field that the driver does not answer is null. Exit status: 0, also when there
 * is no platform (the array is empty then); 1 when the platforms cannot be queried.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include "device_id.h"

#include <stdlib.h>

#ifndef CL_PLATFORM_NOT_FOUND_KHR
#define CL_PLATFORM_NOT_FOUND_KHR -1001
#endif

enum { PLATFORMS = 32, TEXT = 256 };

static void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte == '"' || byte == '\\')
			printf("\\%c", byte);
		else if (byte < ' ' || byte > 126)
			printf("\\u%04x", byte);
		else
			putchar(byte);
	}
	putchar('"');
}

static void print_platform(cl_platform_id platform)
{
	char text[TEXT] = "";

	clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(text) - 1, text, NULL);
	printf("\"platform\": ");
	print_text(text);
}

static void print_string(cl_device_id device, const char *name, cl_device_info what)
{
	char text[TEXT] = "";

	printf(", \"%s\": ", name);
	if (clGetDeviceInfo(device, what, sizeof(text) - 1, text, NULL))
		printf("null");
	else
		print_text(text);
}

static void print_number(cl_device_id device, const char *name, cl_device_info what, size_t bytes)
{
	cl_ulong value = 0; /* little endian: a shorter answer fills the low part */

	printf(", \"%s\": ", name);
	if (clGetDeviceInfo(device, what, bytes, &value, NULL))
		printf("null");
	else
		printf("%llu", (unsigned long long)value);
}

static const char *type_name(cl_device_id device)
{
	cl_device_type type = 0;

	clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
	if (type & CL_DEVICE_TYPE_GPU)
		return "gpu";
	if (type & CL_DEVICE_TYPE_CPU)
		return "cpu";
	return type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator" : "other";
}

static void print_device(cl_platform_id platform, cl_device_id device, cl_uint index)
{
	static const struct sk_cl_device_calls calls = {clGetDeviceInfo, clGetDeviceIDs,
							clGetPlatformInfo};
	char id[SK_CL_DEVICE_ID_BYTES];

	sk_cl_device_id(&calls, device, id);
	printf("{\"id\": ");
	print_text(id);
	printf(", \"index\": %u, ", index);
	print_platform(platform);
	print_string(device, "name", CL_DEVICE_NAME);
	print_string(device, "vendor", CL_DEVICE_VENDOR);
	print_string(device, "version", CL_DEVICE_VERSION);
	print_string(device, "driver_version", CL_DRIVER_VERSION);
	printf(", \"type\": \"%s\"", type_name(device));
	print_number(device, "memory_bytes", CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
	print_number(device, "compute_units", CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
	print_number(device, "clock_mhz", CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof(cl_uint));
	print_number(device, "available", CL_DEVICE_AVAILABLE, sizeof(cl_bool));
	putchar('}');
}

static unsigned print_devices(cl_platform_id platform, unsigned printed)
{
	cl_device_id devices[SK_CL_PLATFORM_DEVICES];
	cl_uint count = 0;

	if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, SK_CL_PLATFORM_DEVICES, devices, &count))
		return printed;
	for (cl_uint i = 0; i < count && i < SK_CL_PLATFORM_DEVICES; i++) {
		if (printed++)
			printf(",\n ");
		print_device(platform, devices[i], i);
	}
	return printed;
}

int main(void)
{
	cl_platform_id platforms[PLATFORMS];
	cl_uint count = 0;
	cl_int error = clGetPlatformIDs(PLATFORMS, platforms, &count);
	unsigned printed = 0;

	if (error && error != CL_PLATFORM_NOT_FOUND_KHR) {
		fprintf(stderr, "stoker-opencl-list: clGetPlatformIDs failed with %d\n", error);
		return 1;
	}
	putchar('[');
	for (cl_uint i = 0; !error && i < count && i < PLATFORMS; i++)
		printed = print_devices(platforms[i], printed);
	puts("]");
	return fflush(stdout) ? 1 : 0;
}
