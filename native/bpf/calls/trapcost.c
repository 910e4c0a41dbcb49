/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a probe's hit on this machine, by the first instruction of its site: small functions
 * in this very process are probed by the programs that probe others. See calls.h. */
#define _GNU_SOURCE /* dladdr, dl_iterate_phdr */
#include "calls.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)

#include <dlfcn.h>
#include <link.h>

#include "bpf/kernel/now.h"

/* Many short rounds, so that one is likely to have the processor to itself. */
enum { ROUNDS = 30, CALLS = 50, CALLS_STEPPED = 10 };

/* Two sites of each kind: one probed at entry and return, one at entry alone. */
#define SITE(name, first)                                                                          \
	__asm__(".text\n.balign 16\n.local " #name "\n.type " #name ",@function\n" #name ":\n"     \
		"\t" first "\n\tpush %rbp\n\tpop %rbp\n\tret\n");                                  \
	void name(void)
#define SITES(name, first)                                                                         \
	SITE(sk_trap_##name##_both, first);                                                        \
	SITE(sk_trap_##name##_entry, first)

SITES(nop5, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00");
SITES(push, "");
SITES(nop1, "nop");
SITES(nop, ".byte 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00");
SITES(branch, "jmp 1f\n1:");
SITES(endbr64, ".byte 0xf3, 0x0f, 0x1e, 0xfa");
SITES(other, "lea 0(%rsp), %rax");

struct trap_sites {
	void (*both)(void);
	void (*entry)(void);
	unsigned calls;
};

#define PAIR(name, count)                                                                          \
	{                                                                                          \
		sk_trap_##name##_both, sk_trap_##name##_entry, count                               \
	}
static const struct trap_sites traps[SK_TRAPS] = {
	[SK_TRAP_NOP5] = PAIR(nop5, CALLS),
	[SK_TRAP_PUSH] = PAIR(push, CALLS),
	[SK_TRAP_NOP1] = PAIR(nop1, CALLS),
	[SK_TRAP_NOP] = PAIR(nop, CALLS),
	[SK_TRAP_BRANCH] = PAIR(branch, CALLS),
	[SK_TRAP_ENDBR64] = PAIR(endbr64, CALLS_STEPPED),
	[SK_TRAP_OTHER] = PAIR(other, CALLS_STEPPED),
};

/* The place of an address in its file. */
struct place {
	uintptr_t at;
	uint64_t offset;
};

static int find(struct dl_phdr_info *info, size_t size, void *wanted)
{
	struct place *place = wanted;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && place->at >= from &&
		    place->at < from + part->p_filesz) {
			place->offset = place->at - from + part->p_offset;
			return 1;
		}
	}
	return 0;
}

static int site_of(void (*function)(void), bool entry_only, struct sk_bpf_call_site *ret)
{
	struct place place = {.at = (uintptr_t)function};

	if (!dl_iterate_phdr(find, &place))
		return -ENOENT;
	*ret = (struct sk_bpf_call_site){.offset = place.offset, .entry_only = entry_only};
	return 0;
}

static uint32_t best_of(void (*function)(void), unsigned calls)
{
	uint64_t best = UINT64_MAX;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t from = sk_bpf_now_ns(), took;

		for (unsigned i = 0; i < calls; i++)
			function();
		took = sk_bpf_now_ns() - from;
		best = took < best ? took : best;
	}
	return (uint32_t)(best / calls);
}

static int attach_here(struct sk_bpf_calls *calls, struct sk_bpf_call_group **ret)
{
	struct sk_bpf_call_site sites[2 * SK_TRAPS];
	Dl_info self;
	int error = 0;

	for (int i = 0; i < SK_TRAPS && !error; i++) {
		error = site_of(traps[i].both, false, &sites[2 * i]);
		error = error ? error : site_of(traps[i].entry, true, &sites[2 * i + 1]);
	}
	if (!error && !dladdr((void *)traps[0].both, &self))
		error = -ENOENT;
	return error ? error
		     : sk_bpf_calls_attach(calls, self.dli_fname, (uint32_t)getpid(), sites,
					   2 * SK_TRAPS, ret);
}

int sk_bpf_trap_costs(struct sk_bpf_calls *calls, struct sk_bpf_trap_cost ret[SK_TRAPS])
{
	struct sk_bpf_call_group *group;
	int error = attach_here(calls, &group);

	if (error)
		return error;
	for (int i = 0; i < SK_TRAPS; i++) {
		ret[i].both_ns = best_of(traps[i].both, traps[i].calls);
		ret[i].entry_ns = best_of(traps[i].entry, traps[i].calls);
	}
	sk_bpf_calls_detach(group);
	return 0;
}

#else

int sk_bpf_trap_costs(struct sk_bpf_calls *calls, struct sk_bpf_trap_cost ret[SK_TRAPS])
{
	(void)calls;
	memset(ret, 0, sizeof(*ret) * SK_TRAPS);
	return -EOPNOTSUPP;
}

#endif
