/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weak definitions of all symbols, which count the call by its name and return NOT_SUPPORTED. A
 * definition elsewhere in this folder replaces one.
 */
#include "sim/cuda/library.h"
#include "sim/cuda/names.h"

#define ABSENT(name, version, symbol)                                                              \
	__attribute__((weak)) SK_CUDA symbol(void)                                                 \
	{                                                                                          \
		return sk_cuda_absent(#symbol);                                                    \
	}

SK_CUDA_NAMES(ABSENT)
