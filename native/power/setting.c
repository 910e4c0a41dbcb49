/* SPDX-License-Identifier: Apache-2.0 */
#include "power/setting.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "devices/library.h"
#include "devices/vendor.h"

enum { UW = 1000 };

/* Write through the vendor's table, by which the agent sets cards too. */
static int by_table(const struct sk_device_vendor *vendor, const struct sk_power_entry *entry,
		    char *why, size_t size)
{
	void *handle = NULL;
	int error = vendor->open(why, size);

	if (!error)
		error = vendor->find(entry->id, &handle, why, size);
	return error ? error : vendor->write(handle, entry->what, entry->value, why, size);
}

/* --- files ------------------------------------------------------------------------------------ */

static int file(const struct sk_power_entry *entry, char *why, size_t size)
{
	char text[32];
	bool v2 = !strcmp(entry->what, "cpu_max"); /* the period stays as it is */
	int length = v2 ? snprintf(text, sizeof(text), "max\n")
			: snprintf(text, sizeof(text), "%llu\n", (unsigned long long)entry->value);
	int fd = open(entry->id, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t wrote = fd < 0 ? -1 : write(fd, text, (size_t)length);
	int error = errno;

	if (fd >= 0)
		close(fd);
	if (wrote == length)
		return 0;
	/* The cgroup of a limited job is gone, and so is its limit. */
	if (fd < 0 && error == ENOENT && (v2 || !strcmp(entry->what, "quota")))
		return 0;
	snprintf(why, size, "%s", strerror(error));
	return -EIO;
}

/* Write the cap of a PCI device, whose hwmon folder gets another number when its driver is loaded
 * again. */
static int hwmon(const struct sk_power_entry *entry, char *why, size_t size)
{
	struct sk_power_entry cap = {.value = entry->value};
	char pattern[sizeof(entry->id) + 32];
	unsigned long long now = 0;
	glob_t found;
	FILE *back;
	bool fits;

	snprintf(pattern, sizeof(pattern), "%s/hwmon/hwmon*/power1_cap", entry->id);
	if (glob(pattern, 0, NULL, &found)) {
		snprintf(why, size, "it has no power1_cap");
		return -ENODEV;
	}
	fits = strlen(found.gl_pathv[0]) < sizeof(cap.id);
	strncpy(cap.id, found.gl_pathv[0], sizeof(cap.id) - 1);
	globfree(&found);
	if (!fits || file(&cap, why, size))
		return -EIO;
	back = fopen(cap.id, "re");
	fits = back && fscanf(back, "%llu", &now) == 1;
	if (back)
		fclose(back);
	if (fits)
		return sk_device_same(now / UW, entry->value / UW, why, size);
	snprintf(why, size, "power1_cap cannot be read back");
	return -EIO;
}

int sk_power_write(const struct sk_power_entry *entry, char *why, size_t size)
{
	if (!strcmp(entry->kind, "nvidia"))
		return by_table(&sk_device_nvidia, entry, why, size);
	if (!strcmp(entry->kind, "amd"))
		return by_table(&sk_device_amd, entry, why, size);
	if (!strcmp(entry->kind, "intel"))
		return by_table(&sk_device_intel, entry, why, size);
	if (!strcmp(entry->kind, "hwmon"))
		return hwmon(entry, why, size);
	if (!strcmp(entry->kind, "file"))
		return file(entry, why, size);
	snprintf(why, size, "no vendor of that name");
	return -ENOSYS;
}
