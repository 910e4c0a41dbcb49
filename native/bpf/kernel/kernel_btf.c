/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Look-ups in BTF; see kernel_btf.h. A tracepoint x is a typedef btf_trace_x of a pointer to a
 * function whose first argument is private (include/trace/bpf_probe.h).
 */
#include "kernel_btf.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <bpf/btf.h>

#define PREFIX "btf_trace_"

static struct sk_bpf_btf_tracepoint *find(const struct sk_bpf_btf_tracepoints *tracepoints,
					  const char *name)
{
	for (int i = 0; i < tracepoints->count; i++)
		if (!strcmp(tracepoints->entries[i].name, name))
			return (struct sk_bpf_btf_tracepoint *)&tracepoints->entries[i];
	return NULL;
}

void sk_bpf_btf_request(struct sk_bpf_btf_tracepoints *tracepoints, const char *name)
{
	if (find(tracepoints, name) || tracepoints->count == SK_BTF_TRACEPOINTS)
		return;
	tracepoints->entries[tracepoints->count].name = name;
	tracepoints->entries[tracepoints->count++].arguments = -ENOENT;
}

static int arguments_of(const struct btf *btf, const struct btf_type *alias)
{
	const struct btf_type *type = btf__type_by_id(btf, alias->type);

	if (!type || !btf_is_ptr(type))
		return -ENOENT;
	type = btf__type_by_id(btf, type->type);
	if (!type || !btf_is_func_proto(type) || !btf_vlen(type))
		return -ENOENT;
	return btf_vlen(type) - 1;
}

void sk_bpf_btf_look(const struct btf *btf, struct sk_bpf_btf_tracepoints *tracepoints)
{
	for (uint32_t id = 1; id < btf__type_cnt(btf); id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);
		struct sk_bpf_btf_tracepoint *wanted;
		const char *name;

		if (!btf_is_typedef(type))
			continue;
		name = btf__name_by_offset(btf, type->name_off);
		if (!name || strncmp(name, PREFIX, strlen(PREFIX)))
			continue;
		wanted = find(tracepoints, name + strlen(PREFIX));
		if (wanted)
			wanted->arguments = arguments_of(btf, type);
	}
}

int sk_bpf_btf_arguments(const struct sk_bpf_btf_tracepoints *tracepoints, const char *name)
{
	const struct sk_bpf_btf_tracepoint *found = find(tracepoints, name);

	return found ? found->arguments : -ENOENT;
}

bool sk_bpf_btf_has_enumerator(const struct btf *btf, const char *type, const char *enumerator)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_ENUM);
	const struct btf_type *found = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);

	for (int i = 0; found && i < btf_vlen(found); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_enum(found)[i].name_off), enumerator))
			return true;
	return false;
}

bool sk_bpf_btf_has_member(const struct btf *btf, const char *type, const char *member)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	const struct btf_type *found = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);

	for (int i = 0; found && i < btf_vlen(found); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_members(found)[i].name_off), member))
			return true;
	return false;
}
