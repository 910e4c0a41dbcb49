/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weak definitions of all exported names, which count the call and return NOT_SUPPORTED. A
 * definition elsewhere in this folder replaces one.
 */
#include "sim/nvml/library.h"

#define SK_NVML_NAME(name)                                                                         \
	__attribute__((weak)) SK_NVML nvmlReturn_t name(void)                                      \
	{                                                                                          \
		return sk_nvml_absent(__func__);                                                   \
	}

#include "sim/nvml/names.h"
