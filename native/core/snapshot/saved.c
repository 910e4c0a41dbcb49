/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of saved records that need little or nothing of the records before them.
 */
#include "core/ledger/job.h"
#include "core/ledger/speed.h"
#include "core/ledger/traits.h"
#include "core/snapshot/saved.h"

/* True if labels are ascending and zeros follow the last. */
bool sk_saved_labels_ok(const struct sk_saved_node *saved)
{
	if (saved->labels > SK_NODE_LABELS_MAX)
		return false;
	for (uint32_t i = 0; i < SK_NODE_LABELS_MAX; i++) {
		const struct sk_label *label = &saved->label[i];

		if (i >= saved->labels
			    ? label->label || label->value || label->flags
			    : !label->label ||
				      label->flags & ~(uint64_t)(SK_LABEL_TAINT | SK_LABEL_COST))
			return false;
		if (i && i < saved->labels && label->label <= label[-1].label)
			return false;
	}
	return true;
}

/* True if NODE_RESERVE would accept it; the queue may have been dropped since. */
bool sk_saved_reserve_ok(const struct sk_saved_node *saved)
{
	return saved->reserve_until_ns ? saved->reserve_from_ns < saved->reserve_until_ns
				       : !saved->reserve_from_ns && !saved->reserve_queue;
}

bool sk_saved_quotas_ok(const struct sk_core *core, const struct sk_saved_queue *saved)
{
	if (saved->quotas > SK_QUEUE_QUOTAS_MAX)
		return false;
	for (uint32_t i = 0; i < SK_QUEUE_QUOTAS_MAX; i++) {
		const struct sk_quota_view *quota = &saved->quota[i];

		if (quota->used_milli || quota->guaranteed_milli > quota->limit_milli ||
		    (quota->limit_milli == SK_NO_LIMIT && !quota->guaranteed_milli) ||
		    (quota->model && !sk_model_find(core, quota->model)))
			return false;
		if (i >= saved->quotas && (quota->model || quota->limit_milli))
			return false;
		if (i && i < saved->quotas && quota->model <= quota[-1].model)
			return false;
	}
	return true;
}

bool sk_saved_course_ok(const struct sk_saved_job *saved)
{
	const struct sk_job_view *view = &saved->view;
	bool final = sk_state_final(view->state), ran = view->state > SK_PENDING && !final;

	if (saved->verdict && !final && view->state != SK_STOPPING)
		return false;
	if (saved->last && !final && view->state != SK_STOPPING)
		return false;
	if (view->preemptions > view->retried || view->retried > view->attempt ||
	    view->retried - view->preemptions > view->request.retries)
		return false;
	if (ran ? !view->attempt : view->charged_ns || view->spent_ns)
		return false;
	return !(view->flags & ~(SK_HAS_EXIT_CODE | SK_HAS_SIGNAL)) &&
	       (view->flags & SK_HAS_EXIT_CODE || !view->exit_code) &&
	       (view->flags & SK_HAS_SIGNAL || !view->signal);
}

bool sk_saved_speed_ok(const struct sk_core *core, const struct sk_saved_speed *saved)
{
	if (!saved->series || !saved->jobs || !saved->model || saved->model > core->models_n ||
	    !saved->measure || saved->measure >= SK_MEASURE_END)
		return false;
	for (uint32_t i = 0; i < SK_SPEED_SAMPLES_MAX; i++)
		if (!saved->ns[i] != (i >= saved->jobs) || saved->ns[i] > SK_SPEED_NS_MAX)
			return false;
	return !sk_speed_find(core, saved->series, saved->measure, saved->model);
}
