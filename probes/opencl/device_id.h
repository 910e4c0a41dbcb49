/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The id of an OpenCL device, which the layer and the lister make alike: GPU-<uuid> for NVIDIA, as
 * NVML spells it, otherwise <platform>-<position>, for example pocl-0.
 *
 * The layer must call the next layer's functions and the lister the loader's, so the three
 * functions that are needed come in as pointers. Memory: the caller's. Threads: any.
 */
#ifndef SK_OPENCL_DEVICE_ID_H
#define SK_OPENCL_DEVICE_ID_H

#include <CL/cl.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef CL_DEVICE_UUID_KHR
#define CL_DEVICE_UUID_KHR 0x106A
#endif

enum { SK_CL_DEVICE_ID_BYTES = 64, SK_CL_PLATFORM_DEVICES = 64 };

struct sk_cl_device_calls {
	cl_int(CL_API_CALL *device_info)(cl_device_id, cl_device_info, size_t, void *, size_t *);
	cl_int(CL_API_CALL *device_ids)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *,
					cl_uint *);
	cl_int(CL_API_CALL *platform_info)(cl_platform_id, cl_platform_info, size_t, void *,
					   size_t *);
};

static inline void sk_cl_device_uuid_text(const unsigned char uuid[16], char *ret, size_t size)
{
	int used = snprintf(ret, size, "GPU-");

	for (int i = 0; i < 16; i++)
		used += snprintf(ret + used, size - (size_t)used, "%s%02x",
				 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static inline unsigned sk_cl_device_position(const struct sk_cl_device_calls *calls,
					     cl_platform_id platform, cl_device_id device)
{
	cl_device_id all[SK_CL_PLATFORM_DEVICES];
	cl_uint count = 0;

	if (calls->device_ids(platform, CL_DEVICE_TYPE_ALL, SK_CL_PLATFORM_DEVICES, all, &count))
		return 0;
	for (cl_uint i = 0; i < count && i < SK_CL_PLATFORM_DEVICES; i++)
		if (all[i] == device)
			return i;
	return 0;
}

/* "Portable Computing Language" is known as pocl; other platforms go by their first word. */
static inline void sk_cl_device_platform_word(const struct sk_cl_device_calls *calls,
					      cl_platform_id platform, char ret[32])
{
	char name[128] = "";
	size_t used = 0;

	calls->platform_info(platform, CL_PLATFORM_NAME, sizeof(name) - 1, name, NULL);
	if (!strcmp(name, "Portable Computing Language"))
		strcpy(name, "pocl");
	for (const char *from = name; isalnum((unsigned char)*from) && used < 31; from++)
		ret[used++] = (char)tolower((unsigned char)*from);
	ret[used] = 0;
	if (!used)
		strcpy(ret, "opencl");
}

static inline void sk_cl_device_id(const struct sk_cl_device_calls *calls, cl_device_id device,
				   char ret[SK_CL_DEVICE_ID_BYTES])
{
	unsigned char uuid[16];
	char vendor[128] = "", word[32];
	cl_platform_id platform = NULL;

	calls->device_info(device, CL_DEVICE_VENDOR, sizeof(vendor) - 1, vendor, NULL);
	calls->device_info(device, CL_DEVICE_PLATFORM, sizeof(platform), &platform, NULL);
	if (strstr(vendor, "NVIDIA") &&
	    !calls->device_info(device, CL_DEVICE_UUID_KHR, sizeof(uuid), uuid, NULL)) {
		sk_cl_device_uuid_text(uuid, ret, SK_CL_DEVICE_ID_BYTES);
		return;
	}
	sk_cl_device_platform_word(calls, platform, word);
	snprintf(ret, SK_CL_DEVICE_ID_BYTES, "%s-%u", word,
		 sk_cl_device_position(calls, platform, device));
}

#endif
