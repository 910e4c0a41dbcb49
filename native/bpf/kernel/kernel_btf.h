/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Look-ups in the running kernel's own description of its types (BTF).
 */
#ifndef SK_BPF_KERNEL_KERNEL_BTF_H
#define SK_BPF_KERNEL_KERNEL_BTF_H

#include <stdbool.h>

struct btf;

#define SK_BTF_TRACEPOINTS 64

struct sk_bpf_btf_tracepoint {
	const char *name;
	int arguments; /* of its typed form; negative: this kernel has no tracepoint of that name */
};

/* The requested tracepoints. One pass over all types finds them, because it is expensive. */
struct sk_bpf_btf_tracepoints {
	struct sk_bpf_btf_tracepoint entries[SK_BTF_TRACEPOINTS];
	int count;
};

/* Add a name, once. */
void sk_bpf_btf_request(struct sk_bpf_btf_tracepoints *tracepoints, const char *name);
void sk_bpf_btf_look(const struct btf *btf, struct sk_bpf_btf_tracepoints *tracepoints);
/* Return the arguments of a requested tracepoint; negative when it is not there. */
int sk_bpf_btf_arguments(const struct sk_bpf_btf_tracepoints *tracepoints, const char *name);
bool sk_bpf_btf_has_enumerator(const struct btf *btf, const char *type, const char *enumerator);
bool sk_bpf_btf_has_member(const struct btf *btf, const char *type, const char *member);

#endif
