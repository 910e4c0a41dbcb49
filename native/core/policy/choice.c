/* SPDX-License-Identifier: Apache-2.0
 *
 * Few jobs wait for a choice at a time, so a choice is found by looking at all of them; the oldest
 * makes room.
 */
#include <errno.h>
#include <string.h>

#include "core/policy/choice.h"

static struct sk_choice *choice_of(const struct sk_core *core, uint64_t job)
{
	struct sk_choice *choices = core->hints->choices;
	uint64_t told = core->hints->choices_n;

	for (uint64_t i = 0; i < told && i < SK_CHOICES_MAX; i++)
		if (choices[i].job == job)
			return &choices[i];
	return NULL;
}

const struct sk_choice *sk_choice_find(const struct sk_core *core, const struct sk_job *job)
{
	const struct sk_choice *choice = choice_of(core, job->id);

	return choice && choice->attempt == job->attempt + 1 ? choice : NULL;
}

int sk_core_choice(struct sk_core *core, uint64_t job, uint32_t attempt, uint16_t reason,
		   const struct sk_choice_row *rows, uint32_t count)
{
	struct sk_hints *hints = core->hints;
	struct sk_choice *choice;

	if (!job || count > SK_CANDIDATES_MAX || (reason && count))
		return -EINVAL;
	choice = choice_of(core, job);
	if (!choice)
		choice = &hints->choices[hints->choices_n++ % SK_CHOICES_MAX];
	choice->job = job;
	choice->attempt = attempt;
	choice->reason = reason;
	choice->count = (uint16_t)count;
	memcpy(choice->rows, rows, count * sizeof *rows);
	return 0;
}
