/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by the ids that the node's inventory uses: GPU-<uuid> for NVIDIA, else platform-index. */
#include "layer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#ifndef CL_DEVICE_UUID_KHR
#define CL_DEVICE_UUID_KHR 0x106A
#endif

enum { PLATFORM_DEVICES = 64 };

static bool has_uuid(cl_device_id device, unsigned char uuid[16])
{
	return !next.clGetDeviceInfo(device, CL_DEVICE_UUID_KHR, 16, uuid, NULL);
}

static void format_uuid(const unsigned char uuid[16], char *id, size_t size)
{
	int used = snprintf(id, size, "GPU-");

	for (int i = 0; i < 16; i++)
		used += snprintf(id + used, size - (size_t)used, "%s%02x",
				 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static unsigned position(cl_platform_id platform, cl_device_id device)
{
	cl_device_id all[PLATFORM_DEVICES];
	cl_uint count = 0;

	if (next.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, PLATFORM_DEVICES, all, &count))
		return 0;
	for (cl_uint i = 0; i < count && i < PLATFORM_DEVICES; i++)
		if (all[i] == device)
			return i;
	return 0;
}

/* "Portable Computing Language" is known as pocl; others go by their first word. */
static void short_name(cl_platform_id platform, char ret[32])
{
	char name[128] = "";
	size_t used = 0;

	next.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name) - 1, name, NULL);
	if (!strcmp(name, "Portable Computing Language"))
		strcpy(name, "pocl");
	for (const char *from = name; isalnum((unsigned char)*from) && used < 31; from++)
		ret[used++] = (char)tolower((unsigned char)*from);
	ret[used] = 0;
	if (!used)
		strcpy(ret, "opencl");
}

static void name_device(cl_device_id device, char *id, size_t size)
{
	unsigned char uuid[16];
	char vendor[128] = "", name[32];
	cl_platform_id platform = NULL;

	next.clGetDeviceInfo(device, CL_DEVICE_VENDOR, sizeof(vendor) - 1, vendor, NULL);
	next.clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(platform), &platform, NULL);
	if (strstr(vendor, "NVIDIA") && has_uuid(device, uuid)) {
		format_uuid(uuid, id, size);
		return;
	}
	short_name(platform, name);
	snprintf(id, size, "%s-%u", name, position(platform, device));
}

/* A part of a device works on the device it is a part of. */
static cl_device_id whole_device(cl_device_id device)
{
	cl_device_id parent = NULL;

	while (!next.clGetDeviceInfo(device, CL_DEVICE_PARENT_DEVICE, sizeof(parent), &parent,
				     NULL) &&
	       parent)
		device = parent;
	return device;
}

static void describe(struct sk_segment_device *row, cl_device_id device)
{
	cl_device_type type = 0;

	name_device(device, row->id, sizeof(row->id));
	next.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(row->name) - 1, row->name, NULL);
	next.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
	row->type = (uint32_t)type;
	strcpy(row->clock, "none yet");
}

unsigned sk_device_row(cl_device_id device)
{
	struct sk_segment_header *header = &layer->segment->header;
	unsigned row = 0;

	device = whole_device(device);
	while (row < header->devices && layer->devices[row] != device)
		row++;
	if (row < header->devices)
		return row;
	if (row == SK_SEGMENT_DEVICES)
		return SK_NO_DEVICE;
	layer->devices[row] = device;
	describe(&layer->segment->devices[row], device);
	/* Pairs with the reader's fence after the header: the row is filled. */
	atomic_store_explicit(&layer->segment->devices[row].ready, 1, memory_order_release);
	atomic_store_explicit(&header->devices, row + 1, memory_order_release);
	return row;
}
