/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over windows; windows.h names the sources of the formulas. */
#include "trace/statistics/windows.h"

#include "trace/statistics/stat.h"

#include <math.h>

/* Return which part of the cost of looking makes the job slower: all of it where the host sets the
 * pace, none where a device does. Two kinds of windows with different costs show it by the time
 * from one launch to the next. */
static double slowing_part(double timed_each, double counted_each, double timed_ns,
			   double counted_ns)
{
	double part = (timed_each - counted_each) / (timed_ns - counted_ns);

	return part < 0 ? 0 : part > 1 ? 1 : part;
}

double sk_trace_cover_unseen(const uint64_t cover_ns[SK_COVERS], uint64_t launches,
			     uint64_t weighted, const struct sk_trace_launch_costs *costs)
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
	if (costs->timed_ns <= costs->counted_ns) /* not known: less work counts as cheaper */
		return counted >= timed ? blind * in_counted / counted / (double)launches
					: blind / (timed + counted);
	double part = slowing_part(timed / in_timed, counted / in_counted, costs->timed_ns,
				   costs->counted_ns);
	double slowed = part * (in_timed * costs->timed_ns + in_counted * costs->counted_ns);
	double seen = timed + counted, least = seen / SK_SLOWED_MOST;

	return blind / (seen - slowed > least ? seen - slowed : least);
}

static void add(struct sk_trace_ratio *ratio, double y, double x)
{
	ratio->items++;
	ratio->y += y;
	ratio->x += x;
}

static void add_pair(struct sk_trace_ratio *ratio, double y, double x)
{
	ratio->pairs++;
	ratio->yy += y * y;
	ratio->yx += y * x;
	ratio->xx += x * x;
}

void sk_trace_clusters_add(struct sk_trace_clusters *clusters,
			   const struct sk_trace_window_sums *before,
			   const struct sk_trace_window_sums *window)
{
	double busy = (double)window->busy_ns, launches = (double)window->launches;

	add(&clusters->mean, busy, launches);
	if (before)
		add_pair(&clusters->mean, busy - (double)before->busy_ns,
			 launches - (double)before->launches);
}

void sk_trace_clusters_add_stretch(struct sk_trace_clusters *clusters,
				   const struct sk_trace_stretch *before,
				   const struct sk_trace_stretch *stretch)
{
	double launches = (double)stretch->launches, ns = (double)stretch->ns;

	add(&clusters->rate, launches, ns);
	if (before)
		add_pair(&clusters->rate, launches - (double)before->launches,
			 ns - (double)before->ns);
}

void sk_trace_clusters_add_tail(struct sk_trace_clusters *clusters, uint64_t blind_ns)
{
	clusters->tails += (double)blind_ns * (double)blind_ns;
}

/* Return the relative half width of y / x at 95 %, from differences: n / 2 of the mean squared
 * difference of y - (y / x) x, by the square of y. */
static double half_width(const struct sk_trace_ratio *ratio)
{
	if (!ratio->pairs || ratio->y <= 0 || ratio->x <= 0)
		return SK_WINDOWS_UNKNOWN;
	double part = ratio->y / ratio->x, pairs = (double)ratio->pairs;
	double squares = ratio->yy - 2 * part * ratio->yx + part * part * ratio->xx;
	double variance = (double)ratio->items * fmax(squares, 0) / (2 * pairs);
	/* A window is in two differences, so they are worth fewer samples than there are of them
	 * (von Neumann and others, The Mean Square Successive Difference, 1941). */
	double freedom = 2 * pairs * pairs / (3 * pairs - 1);

	return sk_trace_stat_student(freedom) * sqrt(variance) / ratio->y;
}

double sk_trace_clusters_error(const struct sk_trace_clusters *clusters, double timed,
			       double counted, double all)
{
	const struct sk_trace_ratio *rate = &clusters->rate;
	double error = 0;

	/* Launches known by number are estimated by their mean time, the rest by the rate. Launches
	 * after the last seen time go by the rate as well, and there may be none. */
	if (clusters->mean.items && all > timed)
		error = (all - timed) / all * half_width(&clusters->mean);
	if (all > counted && rate->x > 0)
		error = hypot(error, rate->y / rate->x * sqrt(clusters->tails) / all);
	if (all > counted)
		error = hypot(error, (all - counted) / all * half_width(rate));
	return fmin(error, SK_WINDOWS_UNKNOWN);
}
