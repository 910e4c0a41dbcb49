/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/site/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void sk_runner_json_escape(const char *text, char *ret, size_t size)
{
	size_t filled = 0;

	for (; *text && filled + 7 < size; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte == '"' || byte == '\\')
			filled += (size_t)snprintf(ret + filled, size - filled, "\\%c", byte);
		else if (byte < 0x20 || byte > 0x7e)
			filled += (size_t)snprintf(ret + filled, size - filled, "\\u%04x", byte);
		else
			ret[filled++] = (char)byte;
	}
	ret[filled] = 0;
}

void sk_runner_log(const char *level, const char *event, const char *format, ...)
{
	char detail[301], escaped[6 * sizeof(detail)];
	struct timespec now;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(detail, sizeof(detail), format, arguments);
	va_end(arguments);
	sk_runner_json_escape(detail, escaped, sizeof(escaped));
	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(stderr, "{\"t\":%lld.%06ld,\"level\":\"%s\",\"event\":\"%s\",\"detail\":\"%s\"}\n",
		(long long)now.tv_sec, now.tv_nsec / 1000, level, event, escaped);
}
