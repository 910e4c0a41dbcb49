/* SPDX-License-Identifier: Apache-2.0 */
#include "devices/vendor.h"

#include <string.h>

static const struct sk_device_vendor *const vendors[] = {
	&sk_device_nvidia,
	&sk_device_amd,
	&sk_device_intel,
	&sk_device_idle,
};

const struct sk_device_vendor *sk_device_vendor_named(const char *name)
{
	for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
		if (!strcmp(vendors[i]->name, name))
			return vendors[i];
	return NULL;
}
