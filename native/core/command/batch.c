/* SPDX-License-Identifier: Apache-2.0
 *
 * The form of records: everything that can be judged without the state.
 */
#include <errno.h>
#include <string.h>

#include "core/command/batch.h"

static const uint16_t sizes[SK_KIND_END] = {
	[SK_TERM] = sizeof(struct sk_term),
	[SK_NODE_UP] = sizeof(struct sk_node_up),
	[SK_NODE_DOWN] = sizeof(struct sk_node_down),
	[SK_DEVICE_SET] = sizeof(struct sk_device_set),
	[SK_SUBMIT] = sizeof(struct sk_submit),
	[SK_PLACE] = sizeof(struct sk_place),
	[SK_OUTCOME] = sizeof(struct sk_outcome),
	[SK_CANCEL] = sizeof(struct sk_cancel),
	[SK_FORGET] = sizeof(struct sk_forget),
	[SK_REFUSED] = sizeof(struct sk_refused),
	[SK_NODE_LABEL] = sizeof(struct sk_node_label),
	[SK_NODE_RESERVE] = sizeof(struct sk_node_reserve),
	[SK_QUEUE_SET] = sizeof(struct sk_queue_set),
	[SK_QUOTA_SET] = sizeof(struct sk_quota_set),
	[SK_USAGE] = sizeof(struct sk_usage),
	[SK_PREEMPT] = sizeof(struct sk_preempt),
	[SK_PREFER] = sizeof(struct sk_place),
	[SK_GIVE_UP] = sizeof(struct sk_give_up),
	[SK_DEVICE_TRAITS] = sizeof(struct sk_device_traits),
	[SK_SUBMIT_ARRAY] = sizeof(struct sk_submit_array),
	[SK_RANGE_END] = sizeof(struct sk_range_end),
};

static const uint32_t flags[SK_KIND_END] = {
	[SK_NODE_DOWN] = SK_NODE_EVICT | SK_NODE_REMOVE,
	[SK_OUTCOME] = SK_HAS_EXIT_CODE | SK_HAS_SIGNAL | SK_HAS_DEVICE_NS,
	[SK_NODE_LABEL] = SK_LABEL_CLEAR | SK_LABEL_TAINT | SK_LABEL_COST,
	[SK_QUEUE_SET] = SK_QUEUE_REMOVE,
	[SK_PREEMPT] = SK_PREEMPT_MOVE,
	[SK_RANGE_END] = SK_RANGE_UNMET,
};

static bool outcome_shape(const struct sk_outcome *outcome)
{
	bool final = outcome->state >= SK_SUCCEEDED && outcome->state < SK_STATE_END;

	if (!(outcome->header.flags & SK_HAS_EXIT_CODE) && outcome->exit_code)
		return false;
	if (!(outcome->header.flags & SK_HAS_SIGNAL) && outcome->signal)
		return false;
	if (!(outcome->header.flags & SK_HAS_DEVICE_NS) && outcome->device_ns)
		return false;
	bool begins = outcome->state >= SK_PENDING && outcome->state <= SK_RUNNING;

	return (final || begins) && !outcome->zero[0] && !outcome->zero[1] && !outcome->zero[2];
}

static bool place_shape(const struct sk_place *place)
{
	if (place->shares_n > SK_TASK_DEVICES_MAX || !place->tasks || place->tasks > SK_TASKS_MAX ||
	    place->task >= place->tasks)
		return false;
	for (uint32_t i = 0; i < SK_TASK_DEVICES_MAX; i++) {
		struct sk_share share = place->shares[i];

		if (i >= place->shares_n ? share.index || share.milli
					 : share.index >= SK_NODE_DEVICES_MAX)
			return false;
	}
	return true;
}

static bool zeros(const uint16_t zero[3])
{
	return !zero[0] && !zero[1] && !zero[2];
}

/* True if only zeros follow the first zero of the list. */
static bool list_shape(const uint64_t *list, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (list[i] && !list[i - 1])
			return false;
	return true;
}

/* True if the list of conditions ends at the first without a field, and what follows is zero. */
static bool conditions_shape(const struct sk_condition *conditions)
{
	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX; i++) {
		const struct sk_condition *at = &conditions[i];

		if ((!at->property && (at->value || at->relation || at->rank || at->place)) ||
		    (i && at->property && !at[-1].property))
			return false;
	}
	return true;
}

static_assert(offsetof(struct sk_request, gpu_milli) - offsetof(struct sk_request, models) ==
		      8 * (SK_JOB_MODELS_MAX + 3 * SK_JOB_LABELS_MAX),
	      "the lists lie one behind the other");

/* True if the request names no model, no label and no job, which is usual. */
static bool lists_empty(const struct sk_request *request)
{
	const char *lists = (const char *)request + offsetof(struct sk_request, models);
	uint64_t any = 0, name;

	for (uint32_t i = 0; i < SK_JOB_MODELS_MAX + 3 * SK_JOB_LABELS_MAX; i++) {
		memcpy(&name, lists + i * sizeof name, sizeof name);
		any |= name;
	}
	for (uint32_t i = 0; i < SK_JOB_AFTERS_MAX; i++)
		any |= request->after[i];
	return !any;
}

/* True if the list of jobs to follow has one meaning: a bit belongs to a job, and only one bit. */
static bool after_shape(const struct sk_request *request)
{
	uint32_t bits = request->after_any | request->after_fail, jobs = 0;

	while (jobs < SK_JOB_AFTERS_MAX && request->after[jobs])
		jobs++;
	return list_shape(request->after, SK_JOB_AFTERS_MAX) && !(bits >> jobs) &&
	       !(request->after_any & request->after_fail);
}

static bool lists_shape(const struct sk_request *request)
{
	if (lists_empty(request))
		return !request->after_any && !request->after_fail;
	return list_shape(request->models, SK_JOB_MODELS_MAX) &&
	       list_shape(request->require, SK_JOB_LABELS_MAX) &&
	       list_shape(request->avoid, SK_JOB_LABELS_MAX) &&
	       list_shape(request->tolerate, SK_JOB_LABELS_MAX) && after_shape(request);
}

bool sk_request_shape(const struct sk_request *request)
{
	return lists_shape(request) && conditions_shape(request->conditions);
}

/* A record that was cut has been filled up to its first condition alone. */
static bool submit_shape(const struct sk_submit *submit)
{
	return submit->header.size == SK_SUBMIT_LEAST ? lists_shape(&submit->request)
						      : sk_request_shape(&submit->request);
}

/* Jobs of kept numbers keep no further ones, and their key is that of the command that began. Only
 * the first one follows others: those that follow a job do so in the order of their numbers. */
static bool array_shape(const struct sk_submit_array *array)
{
	bool later = array->first != 0;

	if (!array->jobs || array->jobs > SK_ARRAY_AT_ONCE || array->behind > SK_ARRAY_JOBS_MAX)
		return false;
	if (later && (array->behind || array->key[0] || array->key[1]))
		return false;
	if ((later || array->jobs > 1) && array->request.after[0])
		return false;
	return sk_request_shape(&array->request);
}

static bool shape(const union sk_command_record *record)
{
	const void *at = record;

	switch (record->header.kind) {
	case SK_NODE_UP:
		return !((const struct sk_node_up *)at)->zero;
	case SK_NODE_DOWN:
		return zeros(((const struct sk_node_down *)at)->zero);
	case SK_DEVICE_SET:
		return ((const struct sk_device_set *)at)->available <= 1;
	case SK_SUBMIT:
		return submit_shape(at);
	case SK_SUBMIT_ARRAY:
		return array_shape(at);
	case SK_NODE_RESERVE:
		return !((const struct sk_node_reserve *)at)->zero;
	case SK_QUOTA_SET:
		return !((const struct sk_quota_set *)at)->zero;
	case SK_USAGE:
		return !((const struct sk_usage *)at)->zero;
	case SK_PREEMPT:
		return !((const struct sk_preempt *)at)->zero;
	case SK_GIVE_UP:
		return !((const struct sk_give_up *)at)->zero;
	case SK_PLACE:
	case SK_PREFER:
		return place_shape(at);
	case SK_OUTCOME:
		return outcome_shape(at);
	case SK_CANCEL:
		return zeros(((const struct sk_cancel *)at)->zero);
	case SK_REFUSED:
		return !((const struct sk_refused *)at)->zero;
	default:
		return true;
	}
}

/* True for the size of this kind; a SUBMIT may be cut behind its last condition. */
static bool size_ok(uint32_t kind, uint32_t size)
{
	return size == sizes[kind] ||
	       (kind == SK_SUBMIT && size >= SK_SUBMIT_LEAST && size < sizes[kind] &&
		!((size - SK_SUBMIT_LEAST) % sizeof(struct sk_condition)));
}

/* Copy one record. Of a SUBMIT that was cut at its first condition only that one becomes zero,
 * which ends the list, and the jobs that it follows; otherwise all that is lacking. */
static void copy(const uint8_t *bytes, size_t size, union sk_command_record *ret)
{
	memcpy(ret, bytes, size);
	if (ret->header.kind != SK_SUBMIT || size == sizeof(struct sk_submit))
		return;
	if (size == SK_SUBMIT_LEAST) {
		struct sk_request *request = &ret->submit.request;

		memset(request->conditions, 0, sizeof request->conditions[0]);
		memset(request->after, 0, sizeof request->after);
	} else {
		memset((uint8_t *)ret + size, 0, sizeof(struct sk_submit) - size);
	}
}

/* True if size, kind and flags of the record at the start of `left` bytes are valid. */
static bool header_ok(const uint8_t *bytes, size_t left, struct sk_header *ret)
{
	if (left < sizeof *ret)
		return false;
	memcpy(ret, bytes, sizeof *ret);
	return ret->kind && ret->kind < SK_KIND_END && size_ok(ret->kind, ret->size) &&
	       ret->size <= left && !(ret->flags & ~flags[ret->kind]);
}

/* True if the records of a gang follow each other with the same job, attempt, size and term. */
static bool follows(const struct sk_place *before, const struct sk_place *place)
{
	if (!before->tasks || before->task + 1u == before->tasks)
		return place->task == 0;
	return place->task == before->task + 1u && place->tasks == before->tasks &&
	       place->job == before->job && place->attempt == before->attempt &&
	       place->header.term == before->header.term;
}

static bool is_place(const struct sk_header *header)
{
	return header->kind == SK_PLACE || header->kind == SK_PREFER;
}

static bool gang_open(const struct sk_place *before)
{
	return before->tasks && before->task + 1u < before->tasks;
}

int sk_batch_check(const uint8_t *bytes, size_t size, bool requests, uint32_t *ret)
{
	struct sk_place before = {0};
	union sk_command_record record;
	uint32_t count = 0;

	for (size_t at = 0; at < size; at += record.header.size, count++) {
		if (!header_ok(bytes + at, size - at, &record.header))
			return -EBADMSG;
		copy(bytes + at, record.header.size, &record);
		if (!shape(&record))
			return -EBADMSG;
		if (!is_place(&record.header) && gang_open(&before))
			return -EBADMSG;
		if (!is_place(&record.header))
			continue;
		if (record.header.kind != (requests ? SK_PREFER : SK_PLACE) ||
		    !follows(&before, &record.places[0]))
			return -EBADMSG;
		before = record.places[0];
	}
	*ret = count;
	return gang_open(&before) ? -EBADMSG : 0;
}

size_t sk_batch_read(const uint8_t *bytes, union sk_command_record *ret)
{
	size_t size;

	memcpy(&ret->header, bytes, sizeof ret->header);
	size = ret->header.size;
	if (is_place(&ret->header)) {
		memcpy(ret, bytes, sizeof(struct sk_place));
		size *= ret->places[0].tasks;
	}
	copy(bytes, size, ret);
	return size;
}
