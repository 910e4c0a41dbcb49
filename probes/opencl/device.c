/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of devices in the segment. */
#include "layer.h"

#include "device_id.h"

#include <string.h>

/* A sub-device keeps its parent device busy. */
static cl_device_id whole_device(cl_device_id device)
{
	cl_device_id parent = NULL;

	while (!sk_cl_next.clGetDeviceInfo(device, CL_DEVICE_PARENT_DEVICE, sizeof(parent), &parent,
					   NULL) &&
	       parent)
		device = parent;
	return device;
}

static unsigned describe(cl_device_id device)
{
	const struct sk_cl_device_calls calls = {sk_cl_next.clGetDeviceInfo,
						 sk_cl_next.clGetDeviceIDs,
						 sk_cl_next.clGetPlatformInfo};
	char id[SK_CL_DEVICE_ID_BYTES] = "", name[128] = "";
	cl_device_type type = 0;

	sk_cl_device_id(&calls, device, id);
	sk_cl_next.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name) - 1, name, NULL);
	sk_cl_next.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
	return sk_tracer_device(id, name, (uint32_t)type);
}

unsigned sk_cl_device_row(cl_device_id device)
{
	unsigned row = 0;

	device = whole_device(device);
	while (row < SK_SEGMENT_DEVICES && sk_cl->devices[row] != device)
		row++;
	if (row < SK_SEGMENT_DEVICES)
		return row;
	row = describe(device);
	if (row != SK_NO_DEVICE)
		sk_cl->devices[row] = device;
	return row;
}
