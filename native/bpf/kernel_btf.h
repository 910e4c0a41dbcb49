/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Questions to the running kernel's own description of its types (BTF).
 *
 */
#ifndef SK_BPF_KERNEL_BTF_H
#define SK_BPF_KERNEL_BTF_H

#include <stdbool.h>

struct btf;

#define SK_BTF_TRACEPOINTS 64

struct sk_bpf_btf_tracepoint {
	const char *name;
	int arguments; /* of its typed form; negative: this kernel has none of that name */
};

/* The tracepoints that are asked for by name; the look through all types is dear, so it is one. */
struct sk_bpf_btf_tracepoints {
	struct sk_bpf_btf_tracepoint entries[SK_BTF_TRACEPOINTS];
	int count;
};

/* Adds a name, once. */
void sk_bpf_btf_request(struct sk_bpf_btf_tracepoints *tracepoints, const char *name);
void sk_bpf_btf_look(const struct btf *btf, struct sk_bpf_btf_tracepoints *tracepoints);
/* Arguments of one that was asked for; negative when it is not there. */
int sk_bpf_btf_arguments(const struct sk_bpf_btf_tracepoints *tracepoints, const char *name);
bool sk_bpf_btf_has_enumerator(const struct btf *btf, const char *type, const char *enumerator);
bool sk_bpf_btf_has_member(const struct btf *btf, const char *type, const char *member);

#endif
