/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A weak definition of every symbol, which says NOT_SUPPORTED and is counted by its name. What is
 * implemented elsewhere in this folder takes its place.
 */
#include "sim/cuda/library.h"
#include "sim/cuda/names.h"

#define ABSENT(name, version, symbol)                                                              \
	__attribute__((weak)) SK_CUDA symbol(void)                                                 \
	{                                                                                          \
		return sk_cuda_absent(#symbol);                                                    \
	}

SK_CUDA_NAMES(ABSENT)
