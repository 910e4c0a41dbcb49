/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The arguments of a function at its first instruction, by the C ABI of the machine.
 *
 * Which machine it is, the kernel's BTF tells; an argument that cannot be read is 0.
 */
#ifndef SK_BPF_ARGUMENT_BPF_H
#define SK_BPF_ARGUMENT_BPF_H

#include <bpf/bpf_core_read.h>

static __always_inline __u64 user_word(__u64 address)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

/* Return the sixth argument or one before it, counted from 0: System V ABI for x86-64, 3.2.3. */
static __always_inline __u64 argument_x86(struct pt_regs___x86 *regs, __u32 number)
{
	switch (number) {
	case 0:
		return BPF_CORE_READ(regs, di);
	case 1:
		return BPF_CORE_READ(regs, si);
	case 2:
		return BPF_CORE_READ(regs, dx);
	case 3:
		return BPF_CORE_READ(regs, cx);
	case 4:
		return BPF_CORE_READ(regs, r8);
	default:
		return BPF_CORE_READ(regs, r9);
	}
}

/* Return the address of a function's first argument in memory. */
static __always_inline __u64 arguments_in_memory(void *context)
{
	struct pt_regs___x86 *x86 = context;
	struct pt_regs___arm64 *arm64 = context;

	if (bpf_core_field_exists(x86->orig_ax))
		return BPF_CORE_READ(x86, sp) + 8; /* behind the return address */
	if (bpf_core_field_exists(arm64->syscallno))
		return BPF_CORE_READ(arm64, sp);
	return 0;
}

/* Return an integer or a pointer, counted from 0. */
static __always_inline __u64 argument(void *context, __u32 number)
{
	struct pt_regs___x86 *x86 = context;
	struct pt_regs___arm64 *arm64 = context;
	__u64 word = 0;

	if (bpf_core_field_exists(x86->orig_ax))
		return number < 6 ? argument_x86(x86, number)
				  : user_word(arguments_in_memory(context) + 8 * (number - 6));
	if (!bpf_core_field_exists(arm64->syscallno))
		return 0;
	if (number >= 8)
		return user_word(arguments_in_memory(context) + 8 * (number - 8));
	bpf_probe_read_kernel(&word, sizeof(word),
			      (void *)arm64 + bpf_core_field_offset(arm64->regs) + 8 * number);
	return word;
}

#endif
