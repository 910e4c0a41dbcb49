/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of devices in the segment. */
#include "layer.h"

#include "device_id.h"

#include <string.h>

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

	const struct sk_device_calls calls = {next.clGetDeviceInfo, next.clGetDeviceIDs,
					      next.clGetPlatformInfo};

	sk_device_id(&calls, device, row->id);
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
