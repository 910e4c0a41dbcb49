// SPDX-License-Identifier: Apache-2.0
// Look-ups in BTF; see kernel_btf.h. A tracepoint x is a typedef btf_trace_x of a pointer to a
// function whose first argument is private (include/trace/bpf_probe.h).
#include "kernel_btf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <bpf/btf.h>

int sk_btf_tracepoint_args(const struct btf *btf, const char *tracepoint)
{
	const struct btf_type *type;
	char name[96];
	int id;

	snprintf(name, sizeof(name), "btf_trace_%s", tracepoint);
	id = btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
	if (id < 0)
		return -ENOENT;
	type = btf__type_by_id(btf, btf__type_by_id(btf, (uint32_t)id)->type);
	if (!type || !btf_is_ptr(type))
		return -ENOENT;
	type = btf__type_by_id(btf, type->type);
	if (!type || !btf_is_func_proto(type) || !btf_vlen(type))
		return -ENOENT;
	return btf_vlen(type) - 1;
}

bool sk_btf_has_enumerator(const struct btf *btf, const char *type, const char *enumerator)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_ENUM);
	const struct btf_type *found = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);

	for (int i = 0; found && i < btf_vlen(found); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_enum(found)[i].name_off), enumerator))
			return true;
	return false;
}

bool sk_btf_has_member(const struct btf *btf, const char *type, const char *member)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	const struct btf_type *found = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);

	for (int i = 0; found && i < btf_vlen(found); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_members(found)[i].name_off), member))
			return true;
	return false;
}
