/* SPDX-License-Identifier: Apache-2.0
 *
 * A pick is one pass over the users who wait on a level; a share costs three multiplications in it.
 */
#include "core/ledger/fair.h"
#include "core/ledger/job.h"
#include "core/state/journal.h"
#include "core/state/list.h"
#include "core/state/pool.h"
#include "core/state/table.h"

#define SK_SHARE_ALL (1ull << 62)

/* All of a resource, and what one of it is as a share. */
struct sk_amount {
	uint64_t all;
	uint64_t each;
};

struct sk_amounts {
	struct sk_amount milli;
	struct sk_amount cpu;
	struct sk_amount memory;
};

/* The place of a line in the order of its level. */
struct sk_standing {
	uint64_t share;
	uint64_t started;
	uint32_t job; /* its first one; the lower id is before */
};

static uint64_t account_hash(uint32_t queue, uint64_t client)
{
	return sk_mix(client + queue);
}

static uint64_t line_hash(uint32_t account, uint32_t kind, uint32_t level)
{
	return sk_mix((uint64_t)account << 16 | kind << 8 | level);
}

uint32_t sk_account_find(const struct sk_core *core, uint32_t queue, uint64_t client)
{
	uint32_t slot = sk_table_first(&core->account_table, account_hash(queue, client));

	while (slot &&
	       (core->accounts[slot].client != client || core->accounts[slot].queue != queue))
		slot = core->accounts[slot].hash_next;
	return slot;
}

/* There are never more accounts than live jobs, so a pool of that size suffices. */
static uint32_t account_make(struct sk_core *core, uint32_t queue, uint64_t client)
{
	uint32_t slot =
		sk_pool_take(core, &core->account_pool, SK_CHAIN(core->accounts, free_next));

	core->accounts[slot].client = client;
	core->accounts[slot].queue = queue;
	sk_table_insert(core, &core->account_table, SK_CHAIN(core->accounts, hash_next),
			account_hash(queue, client), slot);
	return slot;
}

static void started_forget(struct sk_core *core, uint32_t slot)
{
	if (!core->accounts[slot].started)
		return;
	sk_list_remove(core, &core->accounts_order, SK_CHAIN(core->accounts, order), slot);
	SK_ADD(core, core->accounts_started, -1u);
}

void sk_account_open(struct sk_core *core, uint32_t job)
{
	uint32_t queue = core->jobs[job].queue;
	uint64_t client = core->jobs[job].client;
	uint32_t slot = sk_account_find(core, queue, client);

	if (!slot)
		slot = account_make(core, queue, client);
	SK_ADD(core, core->accounts[slot].live, 1);
}

void sk_account_close(struct sk_core *core, uint32_t job)
{
	uint32_t slot = sk_account_find(core, core->jobs[job].queue, core->jobs[job].client);
	const struct sk_account *account = &core->accounts[slot];

	SK_ADD(core, core->accounts[slot].live, -1u);
	if (account->live)
		return;
	started_forget(core, slot);
	sk_table_remove(core, &core->account_table, SK_CHAIN(core->accounts, hash_next),
			account_hash(account->queue, account->client), slot);
	sk_pool_give(core, &core->account_pool, SK_CHAIN(core->accounts, free_next), slot);
}

void sk_account_started(struct sk_core *core, uint32_t slot, uint64_t started)
{
	started_forget(core, slot);
	sk_list_append(core, &core->accounts_order, SK_CHAIN(core->accounts, order), slot);
	SK_ADD(core, core->accounts_started, 1);
	SK_SET(core, core->accounts[slot].started, started);
}

void sk_fair_started(struct sk_core *core, uint32_t job)
{
	sk_account_started(core,
			   sk_account_find(core, core->jobs[job].queue, core->jobs[job].client),
			   core->counters.placed);
}

void sk_fair_charge(struct sk_core *core, const struct sk_task *task, bool give)
{
	const struct sk_job *job = &core->jobs[task->job];
	const struct sk_request *request = &job->request;
	struct sk_account *account =
		&core->accounts[sk_account_find(core, job->queue, job->client)];
	uint64_t milli = 0;

	for (uint32_t i = 0; i < task->shares_n; i++)
		milli += task->shares[i].milli;
	SK_ADD(core, account->milli, give ? -milli : milli);
	SK_ADD(core, account->cpu, give ? -(uint64_t)request->cpu_milli : request->cpu_milli);
	SK_ADD(core, account->memory, give ? -request->memory_bytes : request->memory_bytes);
}

static uint32_t line_find(const struct sk_core *core, const struct sk_job *job)
{
	uint32_t account = sk_account_find(core, job->queue, job->client);
	uint32_t kind = sk_queue_kind(job);
	uint32_t slot =
		sk_table_first(&core->user_line_table, line_hash(account, kind, job->level));

	while (slot &&
	       (core->user_lines[slot].account != account || core->user_lines[slot].kind != kind ||
		core->user_lines[slot].level != job->level))
		slot = core->user_lines[slot].hash_next;
	return account ? slot : 0;
}

struct sk_list *sk_fair_enter(struct sk_core *core, uint32_t job)
{
	const struct sk_job *at = &core->jobs[job];
	uint32_t slot = line_find(core, at), account;
	enum sk_queue_kind kind = sk_queue_kind(at);
	struct sk_user_line *line;

	if (slot)
		return &core->user_lines[slot].jobs;
	account = sk_account_find(core, at->queue, at->client);
	slot = sk_pool_take(core, &core->user_line_pool, SK_CHAIN(core->user_lines, free_next));
	line = &core->user_lines[slot];
	line->account = account;
	line->kind = (uint16_t)kind;
	line->level = at->level;
	sk_table_insert(core, &core->user_line_table, SK_CHAIN(core->user_lines, hash_next),
			line_hash(account, kind, at->level), slot);
	sk_list_append(core, &sk_pending_of(core, at->queue, kind)->levels[at->level],
		       SK_CHAIN(core->user_lines, link), slot);
	return &line->jobs;
}

struct sk_list *sk_fair_line(struct sk_core *core, uint32_t job)
{
	return &core->user_lines[line_find(core, &core->jobs[job])].jobs;
}

void sk_fair_leave(struct sk_core *core, uint32_t job)
{
	const struct sk_job *at = &core->jobs[job];
	uint32_t slot = line_find(core, at), account = core->user_lines[slot].account;

	if (core->user_lines[slot].jobs.first)
		return;
	sk_list_remove(core, &sk_pending_of(core, at->queue, sk_queue_kind(at))->levels[at->level],
		       SK_CHAIN(core->user_lines, link), slot);
	sk_table_remove(core, &core->user_line_table, SK_CHAIN(core->user_lines, hash_next),
			line_hash(account, core->user_lines[slot].kind, at->level), slot);
	sk_pool_give(core, &core->user_line_pool, SK_CHAIN(core->user_lines, free_next), slot);
}

static struct sk_amount amount_of(uint64_t all)
{
	return (struct sk_amount){all, all ? SK_SHARE_ALL / all : 0};
}

static struct sk_amounts amounts_of(const struct sk_core *core)
{
	return (struct sk_amounts){amount_of(core->devices_count * SK_MILLI),
				   amount_of(core->cpu_all), amount_of(core->memory_all)};
}

static uint64_t part_of(uint64_t held, struct sk_amount amount)
{
	return (held < amount.all ? held : amount.all) * amount.each;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t account_share(const struct sk_account *account, const struct sk_amounts *amounts)
{
	return larger(part_of(account->milli, amounts->milli),
		      larger(part_of(account->cpu, amounts->cpu),
			     part_of(account->memory, amounts->memory)));
}

static struct sk_standing standing_of(const struct sk_core *core, const struct sk_user_line *line,
				      const struct sk_amounts *amounts)
{
	const struct sk_account *account = &core->accounts[line->account];

	return (struct sk_standing){account_share(account, amounts), account->started,
				    line->jobs.first};
}

/* Jobs are far apart in memory, so they are looked at only if nothing else decides. */
static bool standing_before(const struct sk_core *core, struct sk_standing a, struct sk_standing b)
{
	if (a.share != b.share)
		return a.share < b.share;
	if (a.started != b.started)
		return a.started < b.started;
	return core->jobs[a.job].id < core->jobs[b.job].id;
}

/* The first job of the line that stands next behind this place, or of all for NULL. */
static uint32_t line_after(const struct sk_core *core, const struct sk_list *list,
			   const struct sk_standing *after, const struct sk_amounts *amounts)
{
	struct sk_standing best = {0};

	for (uint32_t slot = list->first; slot; slot = core->user_lines[slot].link.next) {
		struct sk_standing standing = standing_of(core, &core->user_lines[slot], amounts);

		if ((!after || standing_before(core, *after, standing)) &&
		    (!best.job || standing_before(core, standing, best)))
			best = standing;
	}
	return best.job;
}

uint32_t sk_fair_first(const struct sk_core *core, const struct sk_list *list)
{
	struct sk_amounts amounts = amounts_of(core);

	return line_after(core, list, NULL, &amounts);
}

uint32_t sk_fair_after(const struct sk_core *core, uint32_t job)
{
	const struct sk_job *at = &core->jobs[job];
	const struct sk_user_line *line = &core->user_lines[line_find(core, at)];
	struct sk_amounts amounts = amounts_of(core);
	struct sk_standing after = standing_of(core, line, &amounts);

	return line_after(core,
			  &sk_pending_of(core, at->queue, sk_queue_kind(at))->levels[at->level],
			  &after, &amounts);
}

uint64_t sk_fair_share(const struct sk_core *core, uint32_t job)
{
	struct sk_amounts amounts = amounts_of(core);
	uint32_t slot = sk_account_find(core, core->jobs[job].queue, core->jobs[job].client);

	return slot ? account_share(&core->accounts[slot], &amounts) : 0;
}
