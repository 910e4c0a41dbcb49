/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that a real Level Zero loader requests from a driver: 53 tables of functions, filled
 * here. Every table is an array of addresses, and all of its functions exist.
 */
#include <string.h>

#include "sim/levelzero/driver.h"
#include "sim/levelzero/tables.h"

/* The tables of an older loader are shorter; those of a newer one have more after these. */
static uint32_t fill(uint32_t version, const void *from, size_t bytes, void *ret)
{
	if (version >> 16 != SK_ZE_API_VERSION >> 16 || version < SK_ZE_API_VERSION)
		return SK_ZE_UNSUPPORTED_VERSION;
	if (!ret)
		return SK_ZE_NULL_POINTER;
	memcpy(ret, from, bytes);
	return SK_ZE_SUCCESS;
}

typedef void (*function)(void);

/* clang-format off */
#define ADDRESS(name) (function)name,
#define DECLARE(name) extern uint32_t name();
#define DECLARE_TABLE(getter, functions) functions
#define FILL_TABLE(getter, functions)                                                              \
	__attribute__((visibility("default"))) uint32_t getter(uint32_t version, void *ret)        \
	{                                                                                          \
		static const function table[] = {functions};                                       \
                                                                                                   \
		return fill(version, table, sizeof(table), ret);                                   \
	}
/* clang-format on */

SK_ZE_TABLES(DECLARE_TABLE, DECLARE)
SK_ZE_TABLES(FILL_TABLE, ADDRESS)
