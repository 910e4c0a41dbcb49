/* SPDX-License-Identifier: Apache-2.0 */
#include "power/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int load(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t have = 0;
	ssize_t got = 0;

	if (fd < 0)
		return -errno;
	while (have < size - 1 && (got = read(fd, text + have, size - 1 - have)) > 0)
		have += (size_t)got;
	close(fd);
	if (got < 0)
		return -EIO;
	text[have] = 0;
	return have == size - 1 || strlen(text) != have ? -EBADMSG : 0;
}

static int take_line(struct sk_power_record *record, const char *line)
{
	struct sk_power_entry *entry = &record->entry[record->count];
	unsigned long long value;
	char rest;

	if (record->count == SK_POWER_ENTRIES ||
	    sscanf(line, "%11s %255s %23s %llu %c", entry->kind, entry->id, entry->what, &value,
		   &rest) != 4)
		return -EBADMSG;
	entry->value = value;
	record->count++;
	return 0;
}

int sk_power_record_read(const char *path, struct sk_power_record *ret)
{
	static char text[SK_POWER_BYTES];
	char *place = NULL, *line;
	int error = load(path, text, sizeof(text));
	unsigned count;

	memset(ret, 0, sizeof(*ret));
	if (error)
		return error;
	line = strtok_r(text, "\n", &place);
	if (!line || sscanf(line, "stoker-power 1 %39s", ret->boot_id) != 1)
		return -EBADMSG;
	while ((line = strtok_r(NULL, "\n", &place))) {
		if (sscanf(line, "end %u", &count) == 1)
			return count == ret->count ? 0 : -EBADMSG;
		if (take_line(ret, line))
			return -EBADMSG;
	}
	return -EBADMSG;
}
