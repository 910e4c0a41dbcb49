/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over windows; see windows.h for where the formulas come from. */
#include "trace/windows.h"

#include "trace/stat.h"

#include <math.h>
#include <stddef.h>

/* Of what launches cost while they are looked at, the part that makes the job slower: all of it
 * where the host sets the pace, nothing where a device does. Two kinds of windows, in which looking
 * costs more and less, tell by the time from one launch to the next. */
static double slowing_part(double timed_each, double counted_each, double timed_ns,
			   double counted_ns)
{
	double part = (timed_each - counted_each) / (timed_ns - counted_ns);

	return part < 0 ? 0 : part > 1 ? 1 : part;
}

double sk_cover_unseen(const uint64_t cover_ns[SK_COVERS], uint64_t launches, uint64_t weighted,
		       const struct sk_launch_costs *costs)
{
	double timed = (double)cover_ns[SK_COVER_TIMED],
	       counted = (double)cover_ns[SK_COVER_COUNTED];
	double blind = (double)cover_ns[SK_COVER_BLIND];
	double in_timed = (double)(weighted < launches ? weighted : launches);
	double in_counted = (double)launches - in_timed;

	if (blind <= 0 || !launches || timed + counted <= 0)
		return 0;
	if (in_counted <= 0 || counted <= 0 || in_timed <= 0 || timed <= 0)
		return blind / (timed + counted);
	if (costs->timed_ns <= costs->counted_ns) /* not known: where less is done is better */
		return counted >= timed ? blind * in_counted / counted / (double)launches
					: blind / (timed + counted);
	double part = slowing_part(timed / in_timed, counted / in_counted, costs->timed_ns,
				   costs->counted_ns);
	double slowed = part * (in_timed * costs->timed_ns + in_counted * costs->counted_ns);
	double seen = timed + counted, least = seen / SK_SLOWED_MOST;

	return blind / (seen - slowed > least ? seen - slowed : least);
}

void sk_clusters_add(struct sk_clusters *clusters, const struct sk_window_sums *before,
		     const struct sk_window_sums *window)
{
	double length = (double)(window->to_ns - window->from_ns);

	clusters->windows++;
	clusters->busy += (double)window->busy_ns;
	clusters->launches += (double)window->launches;
	clusters->length += length;
	if (!before)
		return;
	double busy = (double)window->busy_ns - (double)before->busy_ns;
	double launches = (double)window->launches - (double)before->launches;

	length -= (double)(before->to_ns - before->from_ns);
	clusters->pairs++;
	clusters->busy_busy += busy * busy;
	clusters->busy_launches += busy * launches;
	clusters->launches_launches += launches * launches;
	clusters->busy_length += busy * length;
	clusters->launches_length += launches * length;
	clusters->length_length += length * length;
}

/* Relative variance of the ratio y / x from differences: n / 2 of the mean squared difference of
 * y - (y / x) x, by the square of y. */
static double ratio_variance(double windows, double pairs, double y, double x, double yy, double yx,
			     double xx)
{
	double ratio = y / x, squares = yy - 2 * ratio * yx + ratio * ratio * xx;

	return squares > 0 ? windows * squares / (2 * pairs) / (y * y) : 0;
}

double sk_clusters_error(const struct sk_clusters *c, double timed, double counted, double all)
{
	double n = (double)c->windows, pairs = (double)c->pairs;

	if (!c->windows || (timed >= all && counted >= all))
		return 0;
	if (!c->pairs || c->busy <= 0 || c->launches <= 0 || c->length <= 0 || all <= 0)
		return 1;
	/* Launches known by number are estimated by their mean time; the rest by time, which is the
	 * wider of the two where the rate of launches changes. */
	double untimed = all > timed ? (all - timed) / all : 0;
	double blind = all > counted ? (all - counted) / all : 0;
	double mean = ratio_variance(n, pairs, c->busy, c->launches, c->busy_busy, c->busy_launches,
				     c->launches_launches);
	double rate = ratio_variance(n, pairs, c->launches, c->length, c->launches_launches,
				     c->launches_length, c->length_length);

	return sk_stat_student(pairs) * sqrt(untimed * untimed * mean + blind * blind * rate);
}
