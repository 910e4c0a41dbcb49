/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The log: one JSON line per event on standard error, where the supervisor collects it.
 */
#ifndef SK_RUNNER_SITE_LOG_H
#define SK_RUNNER_SITE_LOG_H

#include <stddef.h>

/** Write `{"t":..., "level":..., "event":..., "detail":...}`; the detail is cut to 300 bytes. */
__attribute__((format(printf, 3, 4))) void sk_runner_log(const char *level, const char *event,
							 const char *format, ...);

/** Write `text` as the inside of a JSON string. */
void sk_runner_json_escape(const char *text, char *ret, size_t size);

#endif
