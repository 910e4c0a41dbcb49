/* SPDX-License-Identifier: Apache-2.0
 *
 * The rating of a node is the figure of the slowest device taken, and the fastest devices that
 * suffice are taken. So it is the least of: the figure of one model that suffices alone, and the
 * larger of two figures whose models suffice together. A word names up to two models and which of
 * these they do. A node that offers more than two is rated when the speeds are known.
 */
#include "core/ledger/device.h"
#include "core/policy/model_rate.h"
#include "core/policy/rate.h"
#include "core/policy/signal.h"

#define SK_MODEL_BITS 8u
#define SK_MODEL_MASK ((1u << SK_MODEL_BITS) - 1u)
/* A word below this is the number of the one model whose devices suffice. Above are flags. */
#define SK_ONE_MODEL (1u << SK_MODEL_BITS)
#define SK_FIRST_DOES (1u << 16)  /* of two models, devices of the first suffice alone */
#define SK_SECOND_DOES (1u << 17) /* those of the second do */
#define SK_BOTH_DO (1u << 18)	  /* those of both together do */
#define SK_MANY_MODELS (1u << 19) /* more than two models: not said here */
#define SK_NO_DEVICE (1u << 20)	  /* the task takes no device */

_Static_assert(SK_MODELS_MAX < (SK_SCORE_NONE & SK_MODEL_MASK), "no model has the number of NONE");

/* ---- words ---- */

/* The devices among these that are of one model with the first of them. */
static uint64_t like_first(const struct sk_core *core, uint32_t node, uint64_t among)
{
	uint8_t model = sk_device_at(core, node, (uint32_t)__builtin_ctzll(among))->model;
	uint64_t mask = 0;

	for (; among; among &= among - 1)
		if (sk_device_at(core, node, (uint32_t)__builtin_ctzll(among))->model == model)
			mask |= among & -among;
	return mask;
}

static uint32_t model_of(const struct sk_core *core, uint32_t node, uint64_t mask)
{
	return mask ? sk_device_at(core, node, (uint32_t)__builtin_ctzll(mask))->model : 0;
}

uint32_t sk_model_rate(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	uint64_t offered, first, second;
	uint32_t word = 0;

	if (!sk_rate_offers(core, job, node, &offered))
		return SK_SCORE_NONE;
	if (!job->request.gpu_milli)
		return SK_NO_DEVICE;
	if (!offered || !sk_rate_suffices(core, job, node, offered))
		return SK_SCORE_NONE;
	first = like_first(core, node, offered);
	if (first == offered)
		return model_of(core, node, first);
	second = like_first(core, node, offered & ~first);
	if ((first | second) != offered)
		return SK_MANY_MODELS;
	word |= sk_rate_suffices(core, job, node, first) ? SK_FIRST_DOES : 0;
	word |= sk_rate_suffices(core, job, node, second) ? SK_SECOND_DOES : 0;
	return word | SK_BOTH_DO | model_of(core, node, first) |
	       model_of(core, node, second) << SK_MODEL_BITS;
}

/* ---- figures ---- */

static uint32_t figure_of_two(const uint32_t *speeds, uint32_t word)
{
	uint32_t first = speeds[word & SK_MODEL_MASK];
	uint32_t second = speeds[word >> SK_MODEL_BITS & SK_MODEL_MASK];
	uint32_t least = first > second ? first : second;

	if (word & SK_FIRST_DOES && first < least)
		least = first;
	return word & SK_SECOND_DOES && second < least ? second : least;
}

/* The figure of a node whose word has flags. */
static uint32_t figure_flagged(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			       const uint32_t *speeds, uint32_t word)
{
	if (word & SK_MANY_MODELS)
		return sk_rate(core, job, SK_PLACEMENT_FASTEST, node);
	return word & SK_NO_DEVICE ? 0 : figure_of_two(speeds, word);
}

/* Look up every word as if it were one model; returns the flags of all that are not. */
static uint32_t look_up(const uint32_t *words, const uint32_t *speeds, uint32_t end, uint32_t *ret)
{
	uint32_t flags = 0;

	for (uint32_t node = 0; node < end; node++) {
		uint32_t word = words[node], none = (uint32_t)((int32_t)word >> 31);

		ret[node] = speeds[word & SK_MODEL_MASK];
		flags |= word & ~none;
	}
	return flags & ~SK_MODEL_MASK;
}

const uint32_t *sk_model_rates(const struct sk_core *core, const struct sk_job *job,
			       const uint32_t *words)
{
	struct sk_hints *hints = core->hints;
	uint32_t speeds[SK_ONE_MODEL];

	sk_signal_speeds(core, job->request.series, speeds);
	speeds[SK_SCORE_NONE & SK_MODEL_MASK] = SK_SCORE_NONE;
	if (!look_up(words, speeds, hints->end, hints->figures))
		return hints->figures;
	for (uint32_t node = 0; node < hints->end; node++)
		if (words[node] >= SK_ONE_MODEL && words[node] != SK_SCORE_NONE)
			hints->figures[node] = figure_flagged(core, job, node, speeds, words[node]);
	return hints->figures;
}
