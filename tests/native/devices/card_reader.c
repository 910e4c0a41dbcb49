/* SPDX-License-Identifier: Apache-2.0 */
/* The reader's thread on a vendor of this file's own. The argument names a scenario; each prints
 * what it saw. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "devices/card.h"
#include "devices/card_reader.h"

enum { PERIOD_NS = 2000000, LOOK_NS = 1000000, LOOKS = 20000, SLOW_ROUNDS = SK_DEVICE_SLOW + 3 };

/* Values that the vendor reports. */
static _Atomic int32_t temperature = 50, code, reasons, errors, hold;
static _Atomic uint32_t fast_rounds, slow_rounds, begun;
static _Atomic uint64_t energy_mj, sampled_us = 1000;

static int begin(struct sk_device_card *card)
{
	begun++;
	return begun == 1 ? -1 : 0; /* the first time there is no memory */
}

static void fast(struct sk_device_card *card, struct sk_device_record *record)
{
	sk_device_enter(card, 0);
	while (hold)
		nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
	sk_device_leave(card, code);
	record->field[SK_DEVICE_TEMPERATURE] = sk_device_said(0, code, temperature);
	record->field[SK_DEVICE_THROTTLE] = sk_device_value(reasons);
	/* 100 W by a clock of the driver's own, which counts a tenth of a second each round. */
	energy_mj += 10000;
	record->field[SK_DEVICE_ENERGY] = sk_device_value((double)energy_mj / 1000);
	record->energy_ns = energy_mj * 10000;
	fast_rounds++;
}

/* The driver's buffer has its newest four samples, of which two are new each second. */
static void slow(struct sk_device_card *card, struct sk_device_record *record)
{
	sampled_us += 2;
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t us = sampled_us - 3 + i;

		record->sample[i] = (struct sk_device_sample){(int64_t)us * 1000, (double)us / 2};
	}
	record->field[SK_DEVICE_POWER_SAMPLES] = sk_device_value(4);
	record->field[SK_DEVICE_ECC_CORRECTED] = sk_device_value(errors);
	record->field[SK_DEVICE_LINKS] = sk_device_value(1);
	record->link[0] = (struct sk_device_link){.errors = NAN, .up = 1};
	slow_rounds++;
}

static void end(struct sk_device_card *card)
{
}

static const char *const names[] = {"read"};
static const struct sk_device_vendor vendor = {
	.name = "test",
	.call = names,
	.calls = 1,
	.begin = begin,
	.fast = fast,
	.slow = slow,
	.end = end,
};

static struct sk_device_reader *reader;
static struct sk_device_record record;
static double none[SK_DEVICE_FIELDS];
static int bell;

static uint64_t rounds(void)
{
	return sk_device_reader_state(reader).rounds;
}

/* Wait for so many rounds more: an event, of which a reader that stands still has none. */
static void pass(uint64_t more)
{
	uint64_t goal = rounds() + more;

	for (uint32_t i = 0; rounds() < goal; i++) {
		if (i == LOOKS)
			abort();
		nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
	}
}

static void start(void)
{
	for (uint32_t i = 0; i < SK_DEVICE_FIELDS; i++)
		none[i] = NAN;
	bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (sk_device_reader_start(&vendor, NULL, PERIOD_NS, 0, &reader))
		abort();
	pass(SLOW_ROUNDS); /* until there is a power by energy, which is news */
}

static uint64_t woken_in(uint64_t more)
{
	uint64_t before = sk_device_reader_wakeups(reader);

	pass(more);
	return sk_device_reader_wakeups(reader) - before;
}

static void read_and_keep(void)
{
	int64_t t_ns[SK_DEVICE_POINTS];
	double values[SK_DEVICE_POINTS];
	uint32_t count;

	pass(25);
	count = sk_device_reader_points(reader, SK_DEVICE_TEMPERATURE, 0, 5, t_ns, values);
	printf("points %u %g %d\n", count, values[0], t_ns[0] < t_ns[4]);
	sk_device_reader_copy(reader, &record);
	printf("power %g %u\n", record.field[SK_DEVICE_ENERGY_POWER].value,
	       record.field[SK_DEVICE_ENERGY_POWER].window_us);
	printf("unread %d\n", record.field[SK_DEVICE_FAN].code);
	count = sk_device_reader_points(reader, SK_DEVICE_POWER_SAMPLES, 0, SK_DEVICE_POINTS, t_ns,
					values);
	for (uint32_t i = 1; i < count; i++)
		if (t_ns[i] != t_ns[i - 1] + 1000 || values[i] != (double)t_ns[i] / 2000)
			count = 0;
	printf("samples %d\n", count >= 6);
	code = 3;
	pass(2);
	count = sk_device_reader_points(reader, SK_DEVICE_TEMPERATURE, 0, 1, t_ns, values);
	sk_device_reader_copy(reader, &record);
	printf("refused %d %u\n", record.field[SK_DEVICE_TEMPERATURE].code, count);
}

static void pace(void)
{
	uint32_t most = 0;

	sk_device_reader_renew(reader);
	pass(31);
	most = fast_rounds / SK_DEVICE_SLOW + 1;
	printf("slow %d\n", slow_rounds <= most && slow_rounds + 1 >= most);
	printf("begun %u\n", begun);
}

static void levels(void)
{
	double level[SK_DEVICE_FIELDS];
	uint64_t found;

	memcpy(level, none, sizeof(level));
	level[SK_DEVICE_TEMPERATURE] = 90;
	sk_device_reader_watch(reader, bell, 100000, level);
	pass(2);
	printf("below %llu\n", (unsigned long long)woken_in(5));
	temperature = 90;
	pass(2);
	printf("at %d\n", woken_in(5) >= 5);
	printf("heard %d\n", read(bell, &found, sizeof(found)) == sizeof(found) && found >= 5);
	temperature = 89;
	pass(2);
	printf("again %llu\n", (unsigned long long)woken_in(5));
}

static void changes(void)
{
	uint64_t before;

	sk_device_reader_watch(reader, bell, 100000, none);
	pass(2);
	before = sk_device_reader_wakeups(reader);
	code = 15;
	pass(4);
	code = 0;
	pass(4);
	printf("codes %llu\n", (unsigned long long)(sk_device_reader_wakeups(reader) - before));
	before = sk_device_reader_wakeups(reader);
	reasons = SK_DEVICE_AT_POWER_LIMIT;
	pass(4);
	printf("harmless %llu\n", (unsigned long long)(sk_device_reader_wakeups(reader) - before));
	reasons = SK_DEVICE_AT_POWER_LIMIT | SK_DEVICE_POWER_BRAKE;
	pass(4);
	printf("fault %llu\n", (unsigned long long)(sk_device_reader_wakeups(reader) - before));
	before = sk_device_reader_wakeups(reader);
	errors = 7;
	pass(SK_DEVICE_SLOW + 2);
	printf("errors %llu\n", (unsigned long long)(sk_device_reader_wakeups(reader) - before));
	before = sk_device_reader_wakeups(reader);
	energy_mj = 0;
	pass(4);
	printf("reset %d\n", sk_device_reader_wakeups(reader) > before);
}

static void quiet(void)
{
	uint64_t found;

	sk_device_reader_watch(reader, bell, 1, none);
	printf("seconds %d\n", woken_in(SK_DEVICE_SLOW * 3 + 1) >= 3);
	printf("refused %d\n", sk_device_reader_watch(reader, bell, 0, none));
	sk_device_reader_watch(reader, -1, 1, none);
	found = read(bell, &found, sizeof(found)) > 0;
	pass(SK_DEVICE_SLOW + 2);
	printf("nobody %d\n", read(bell, &found, sizeof(found)) < 0);
}

static void hang(void)
{
	hold = 1;
	for (uint32_t i = 0; sk_device_reader_state(reader).doing < 0; i++) {
		if (i == LOOKS)
			abort();
		nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
	}
	printf("doing %s\n", names[sk_device_reader_state(reader).doing]);
	sk_device_reader_copy(reader, &record); /* nothing is held while the driver is called */
	printf("copied %g\n", record.field[SK_DEVICE_TEMPERATURE].value);
	sk_device_reader_stop(reader);
	printf("left 1\n");
	fflush(stdout);
	_exit(0); /* the thread and its memory stay behind */
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenario[] = {
		{"keep", read_and_keep}, {"pace", pace},   {"levels", levels},
		{"changes", changes},	 {"quiet", quiet}, {"hang", hang},
	};

	start();
	for (uint32_t i = 0; i < sizeof(scenario) / sizeof(scenario[0]); i++)
		if (!strcmp(argv[1], scenario[i].name))
			scenario[i].run();
	sk_device_reader_stop(reader);
	close(bell);
	printf("period %d\n", sk_device_reader_start(&vendor, NULL, 10, 0, &reader));
	return 0;
}
