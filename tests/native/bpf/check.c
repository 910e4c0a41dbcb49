/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the pure parts of native/bpf: the slot table, the grouping of spans, sums of times, the
 * table of probes and the reading of libbpf's messages. Compiled with sanitizers and run by
 * test_check.py; a failed check prints its line and ends the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/kernel/reason.h"
#include "bpf/threads/slots.h"
#include "bpf/catalogue/table.h"
#include "bpf/threads/times.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "check.c:%d: %s\n", __LINE__, #condition);                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct sk_bpf_slots slots_of(uint32_t size)
{
	struct sk_bpf_slots slots = {.mask = size - 1};

	slots.table = calloc(size, sizeof(*slots.table));
	CHECK(slots.table);
	return slots;
}

static uint64_t seed = 0x5eed;

static uint64_t next_random(void) /* xorshift64 */
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void slots_find_what_was_added(void)
{
	struct sk_bpf_slots slots = slots_of(64);

	CHECK(sk_bpf_slots_find(&slots, 7) == SK_SLOT_NONE);
	for (uint64_t i = 0; i < 32; i++)
		CHECK(sk_bpf_slots_add(&slots, 1000 + i * 64) == i);
	for (uint64_t i = 0; i < 32; i++) {
		CHECK(sk_bpf_slots_find(&slots, 1000 + i * 64) == i);
		CHECK(sk_bpf_slots_add(&slots, 1000 + i * 64) == i);
	}
	CHECK(sk_bpf_slots_add(&slots, 9) == SK_SLOT_NONE); /* half full */
	CHECK(sk_bpf_slots_find(&slots, 9) == SK_SLOT_NONE);
	sk_bpf_slots_clear(&slots);
	CHECK(slots.count == 0 && sk_bpf_slots_find(&slots, 1000) == SK_SLOT_NONE);
	free(slots.table);
}

/* Many spans of random jobs against a count by brute force; buffers are exactly as large as told.
 */
static void spans_are_grouped_in_order(size_t count, uint32_t jobs)
{
	struct sk_job_span *spans = calloc(count ? count : 1, sizeof(*spans));
	struct sk_bpf_slots slots = slots_of(2 * 64);
	struct sk_bpf_span_group *groups = calloc(64, sizeof(*groups));
	size_t placed = 0;

	for (size_t i = 0; i < count; i++) {
		spans[i].job = 1 + next_random() % jobs;
		spans[i].span.from_ns = i;
		spans[i].span.tid = (uint32_t)spans[i].job;
	}
	CHECK(sk_bpf_spans_count(spans, count, &slots, groups) == 0);
	for (uint32_t i = 0; i < slots.count; i++)
		groups[i].spans = malloc(groups[i].count * sizeof(struct sk_span));
	sk_bpf_spans_scatter(spans, count, &slots, groups);
	for (uint32_t i = 0; i < slots.count; i++) {
		for (size_t j = 0; j < groups[i].count; j++) {
			CHECK(groups[i].spans[j].tid == groups[i].job);
			CHECK(!j || groups[i].spans[j - 1].from_ns < groups[i].spans[j].from_ns);
		}
		placed += groups[i].count;
		free(groups[i].spans);
	}
	CHECK(placed == count);
	free(groups);
	free(slots.table);
	free(spans);
}

static void homeless_spans_are_counted(void)
{
	struct sk_job_span spans[6] = {{.job = 1}, {.job = 2}, {.job = 3},
				       {.job = 0}, {.job = 1}, {.job = 3}};
	struct sk_bpf_slots slots = slots_of(4); /* room for two jobs */
	struct sk_bpf_span_group groups[2];
	struct sk_span out[2][2];

	CHECK(sk_bpf_spans_count(spans, 6, &slots, groups) == 3);
	CHECK(slots.count == 2 && groups[0].count == 2 && groups[1].count == 1);
	groups[0].spans = out[0];
	groups[1].spans = out[1];
	sk_bpf_spans_scatter(spans, 6, &slots, groups);
	CHECK(groups[0].count == 2 && groups[1].count == 1);
	free(slots.table);
}

static void faults_are_a_part_of_the_open_interval(void)
{
	struct sk_thread_row thread = {.state = SK_SPAN_ON_CPU, .since_ns = 100, .detail = 7};
	struct sk_times total = {0};

	sk_bpf_thread_close(&thread, 300);
	CHECK(thread.detail == 7); /* none, so nothing is told */
	thread.handled_ns = thread.times.handling_ns = 50;
	sk_bpf_thread_close(&thread, 300);
	CHECK(thread.detail == SK_SPAN_FAULTED_ALL / 4);
	thread.handled_ns = 500; /* of a fault that began earlier */
	sk_bpf_thread_close(&thread, 300);
	CHECK(thread.detail == SK_SPAN_FAULTED_ALL);
	thread.state = SK_SPAN_BLOCKED;
	thread.detail = 35;
	sk_bpf_thread_close(&thread, 300);
	CHECK(thread.detail == 35); /* a system call */
	sk_bpf_times_add(&total, &thread.times);
	CHECK(total.handling_ns == 50);
}

static void times_add_up(void)
{
	struct sk_times total = {.ns = {1, 2, 3, 4}, .switches = 5, .longest_delay_ns = 9};
	struct sk_thread_row thread = {.state = SK_SPAN_BLOCKED, .since_ns = 100};

	thread.times =
		(struct sk_times){.ns = {10, 20, 30, 40}, .wakeups = 2, .longest_delay_ns = 7};
	thread.times.delays[31] = 3;
	sk_bpf_thread_close(&thread, 150);
	CHECK(thread.times.ns[2] == 80);
	sk_bpf_times_add(&total, &thread.times);
	CHECK(total.ns[0] == 11 && total.ns[1] == 22 && total.ns[2] == 83 && total.ns[3] == 44);
	CHECK(total.switches == 5 && total.wakeups == 2 && total.longest_delay_ns == 9);
	CHECK(total.delays[31] == 3);
	sk_bpf_thread_close(&thread, 99); /* the reader's clock may be behind */
	CHECK(thread.times.ns[2] == 80);
	thread.waits = SK_WAIT_FAULT | SK_WAIT_MEMORY;
	sk_bpf_thread_close(&thread, 110); /* why it is blocked is a part of how long */
	CHECK(thread.times.ns[2] == 90 && thread.times.fault_ns == 10);
	CHECK(thread.times.memory_ns == 10);
	thread.times.irq_ns = 3;
	thread.times.user_faults = 5;
	sk_bpf_times_add(&total, &thread.times);
	sk_bpf_times_add(&total, &thread.times);
	CHECK(total.fault_ns == 20 && total.memory_ns == 20 && total.irq_ns == 6);
	CHECK(total.user_faults == 10 && total.kernel_faults == 0 && total.softirq_ns == 0);
	faults_are_a_part_of_the_open_interval();
	thread.state = 0;
	sk_bpf_thread_close(&thread, 500);
	thread.state = 5;
	sk_bpf_thread_close(&thread, 500);
	CHECK(thread.times.ns[0] == 10 && thread.times.ns[3] == 40);
}

static void the_last_line_that_says_something(void)
{
	char line[24];

	sk_bpf_reason_verifier_line("0: (b7) r0 = 0\nR1 !read_ok\nprocessed 2 insns\n\n-- END --\n",
				    line, sizeof(line));
	CHECK(!strcmp(line, "R1 !read_ok"));
	sk_bpf_reason_verifier_line("", line, sizeof(line));
	CHECK(!line[0]);
	sk_bpf_reason_verifier_line("\n\n", line, sizeof(line));
	CHECK(!line[0]);
	sk_bpf_reason_verifier_line("a line that is longer than its room", line, sizeof(line));
	CHECK(!strcmp(line, "a line that is longer t"));
	sk_bpf_reason_verifier_line("no newline at the end", line, sizeof(line));
	CHECK(!strcmp(line, "no newline at the end"));
}

static void the_program_a_warning_is_about(void)
{
	char name[16];

	sk_bpf_reason_program_of("libbpf: prog 'on_switch': BPF program load failed: x\n", name,
				 16);
	CHECK(!strcmp(name, "on_switch"));
	sk_bpf_reason_program_of("libbpf: prog 'a_name_longer_than_the_room': -- BEGIN", name, 16);
	CHECK(!strcmp(name, "a_name_longer_t"));
	sk_bpf_reason_program_of("libbpf: prog 'cut", name, 16);
	CHECK(!strcmp(name, "cut"));
	sk_bpf_reason_program_of("libbpf: map 'threads': failed to create", name, 16);
	CHECK(!name[0]);
	sk_bpf_reason_program_of("", name, 16);
	CHECK(!name[0]);
}

/* Every row has an id of its own; a program belongs to one row and is found by its name. */
static void rows_are_whole(void)
{
	for (enum sk_bpf_probe i = 0; i < SK_PROBES; i++) {
		const struct sk_bpf_row *row = sk_bpf_row_of(i);

		CHECK(row->id && !strncmp(row->id, "host.", 5));
		CHECK(i == SK_PROBE_SYSCALL || row->hooks[0].program);
		CHECK((row->object == SK_OBJECT_OPT_IN) == (row->opt_in != 0));
		for (enum sk_bpf_probe j = 0; j < i; j++)
			CHECK(strcmp(row->id, sk_bpf_row_of(j)->id));
		for (int j = 0; j < SK_HOOKS; j++) {
			const struct sk_bpf_hook *hook = &row->hooks[j];

			CHECK(!hook->program || sk_bpf_row_with(hook->program) == i);
			CHECK(!hook->other_program || sk_bpf_row_with(hook->other_program) == i);
			CHECK(!hook->other_tracepoint || hook->other_program);
		}
	}
	CHECK(sk_bpf_row_with("") == SK_PROBES && sk_bpf_row_with("on_nothing") == SK_PROBES);
}

int main(void)
{
	slots_find_what_was_added();
	spans_are_grouped_in_order(0, 1);
	spans_are_grouped_in_order(1, 1);
	spans_are_grouped_in_order(5000, 1);
	spans_are_grouped_in_order(5000, 64);
	homeless_spans_are_counted();
	times_add_up();
	the_last_line_that_says_something();
	the_program_a_warning_is_about();
	rows_are_whole();
	return 0;
}
