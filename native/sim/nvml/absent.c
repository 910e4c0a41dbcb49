/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A weak definition of every exported name, which says NOT_SUPPORTED and is counted. What is
 * implemented elsewhere in this folder takes its place.
 */
#include "sim/nvml/library.h"

#define SK_NVML_NAME(name)                                                                         \
	__attribute__((weak)) SK_NVML nvmlReturn_t name(void)                                      \
	{                                                                                          \
		return sk_nvml_absent(__func__);                                                   \
	}

#include "sim/nvml/names.h"
