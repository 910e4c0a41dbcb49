/* SPDX-License-Identifier: Apache-2.0 */
#include "devices/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAME_MW = 1000 }; /* drivers round by less */

int sk_device_missing(char *why, size_t size, const char *what)
{
	snprintf(why, size, "the library has no %s", what);
	return -ENOSYS;
}

int sk_device_refuse(char *why, size_t size, const char *what, int code)
{
	snprintf(why, size, "%s: error %d", what, code);
	return -EIO;
}

void *sk_device_library(const char *name, char *why, size_t size)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

	if (!library)
		snprintf(why, size, "%s", dlerror());
	return library;
}

int sk_device_same(uint64_t now_mw, uint64_t mw, char *why, size_t size)
{
	if (llabs((long long)now_mw - (long long)mw) <= SAME_MW)
		return 0;
	snprintf(why, size, "the limit reads %llu mW afterwards", (unsigned long long)now_mw);
	return -EIO;
}

void *sk_device_find(void *library, const char *name, char *why, size_t size)
{
	void *found = library ? dlsym(library, name) : NULL;

	if (library && !found)
		sk_device_missing(why, size, name);
	return found;
}
