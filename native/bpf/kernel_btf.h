/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to the running kernel's own description of its types (BTF).
 *
 * Relied on by the attaching of host probes, which asks for the feature and never for a version.
 */
#ifndef STOKER_BPF_KERNEL_BTF_H
#define STOKER_BPF_KERNEL_BTF_H

#include <stdbool.h>

struct btf;

/* Arguments of a tracepoint's typed form; -ENOENT when this kernel has none of that name. */
int sk_btf_tracepoint_args(const struct btf *btf, const char *tracepoint);
bool sk_btf_has_enumerator(const struct btf *btf, const char *type, const char *enumerator);
bool sk_btf_has_member(const struct btf *btf, const char *type, const char *member);

#endif
