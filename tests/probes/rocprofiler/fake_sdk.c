/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated rocprofiler-sdk; see fake_sdk.h. The types are those of the tracer's own
 * declarations, so a mistake in them is not found here but by abi_check.c. */
#include "fake_sdk.h"

#include "rocprofiler/abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum {
	LOCKED = 16, /* ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED */
	CONTEXTS = 8,
	TRUTHS = 1 << 20,
	PENDING = 1 << 16,
	CPU_AGENT = 700,
	GPU_AGENT = 701,
};

EXPORTED const int stoker_simulated = 1;

struct context {
	_Atomic bool active;
	sk_rocp_callback code, launch, copy;
	sk_rocp_external_call external;
	bool kernels, copies; /* into the buffer */
};

/* A launch on its way, with the contexts that had it. */
struct pending {
	uint64_t due_ns; /* CLOCK_MONOTONIC */
	bool is_copy;
	union {
		struct sk_rocp_kernel_record kernel;
		struct sk_rocp_copy_record copy;
	};
};

static struct {
	bool configuring, done;
	struct context contexts[CONTEXTS];
	unsigned context_count;
	sk_rocp_buffer_call on_buffer;
	size_t buffer_records, call_at;
	struct sk_rocp_configured *tool;
	uint64_t busy_until[FAKE_DEVICES];
	uint64_t correlation;
	bool hold;
	int64_t skew_ns;
	int64_t drift_ppb;
	uint64_t origin_ns;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct pending *ring;
	uint64_t head, tail;
	struct pending *buffer;
	size_t buffered;
	uint64_t dropped;
	pthread_mutex_t delivery;
	struct fake_truth *truths;
	uint64_t truth_count;
	bool ending;
	uint64_t asked, answered; /* deliveries */
	pthread_t signals;
	pthread_t deliverer;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER,
	  .changed = PTHREAD_COND_INITIALIZER,
	  .delivery = PTHREAD_MUTEX_INITIALIZER};

static uint64_t read_clock(clockid_t id)
{
	struct timespec time;

	clock_gettime(id, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Return the stamps' clock at a time of CLOCK_MONOTONIC. */
static uint64_t stamp(uint64_t monotonic_ns)
{
	static uint64_t apart;

	if (!apart)
		apart = read_clock(CLOCK_BOOTTIME) - read_clock(CLOCK_MONOTONIC) + 1;
	int64_t since = (int64_t)(monotonic_ns - fake.origin_ns);

	return monotonic_ns + apart - 1 + (uint64_t)fake.skew_ns +
	       (uint64_t)(since * fake.drift_ppb / 1000000000);
}

static int64_t number(const char *name, int64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoll(text, NULL, 10) : otherwise;
}

static uint32_t own_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

/* ---- what a tool calls ---- */

static struct context *context_of(struct sk_rocp_id id)
{
	return &fake.contexts[id.handle - 1];
}

EXPORTED int rocprofiler_create_context(struct sk_rocp_id *ret)
{
	if (!fake.configuring)
		return LOCKED;
	ret->handle = ++fake.context_count;
	return 0;
}

EXPORTED int rocprofiler_start_context(struct sk_rocp_id id)
{
	context_of(id)->active = true;
	return 0;
}

EXPORTED int rocprofiler_stop_context(struct sk_rocp_id id)
{
	context_of(id)->active = false;
	return 0;
}

EXPORTED int rocprofiler_create_buffer(struct sk_rocp_id context, size_t bytes, size_t watermark,
				       uint32_t policy, sk_rocp_buffer_call call, void *data,
				       struct sk_rocp_id *ret)
{
	const char *records = getenv("FAKE_BUFFER_RECORDS");

	if (!fake.configuring)
		return LOCKED;
	fake.on_buffer = call;
	fake.buffer_records = records ? strtoul(records, NULL, 10) : bytes / 200;
	fake.call_at = fake.buffer_records / 2;
	fake.buffer = calloc(fake.buffer_records, sizeof(*fake.buffer));
	ret->handle = 1;
	return 0;
}

EXPORTED int rocprofiler_configure_buffer_tracing_service(struct sk_rocp_id context, uint32_t kind,
							  const int32_t *operations, size_t count,
							  struct sk_rocp_id buffer)
{
	if (!fake.configuring)
		return LOCKED;
	if (kind == SK_ROCP_BUFFER_KERNEL_DISPATCH)
		context_of(context)->kernels = true;
	if (kind == SK_ROCP_BUFFER_MEMORY_COPY)
		context_of(context)->copies = true;
	return 0;
}

EXPORTED int rocprofiler_configure_callback_tracing_service(struct sk_rocp_id context,
							    uint32_t kind,
							    const int32_t *operations, size_t count,
							    sk_rocp_callback call, void *data)
{
	struct context *found = context_of(context);

	if (!fake.configuring)
		return LOCKED;
	if (kind == SK_ROCP_CALLBACK_CODE_OBJECT)
		found->code = call;
	if (kind == SK_ROCP_CALLBACK_KERNEL_DISPATCH)
		found->launch = call;
	if (kind == SK_ROCP_CALLBACK_MEMORY_COPY)
		found->copy = call;
	return 0;
}

#ifndef FAKE_WITHOUT_EXTERNAL
EXPORTED int rocprofiler_configure_external_correlation_id_request_service(
	struct sk_rocp_id context, const uint32_t *kinds, size_t count, sk_rocp_external_call call,
	void *data)
{
	if (!fake.configuring)
		return LOCKED;
	context_of(context)->external = call;
	return 0;
}
#endif

EXPORTED int rocprofiler_create_callback_thread(struct sk_rocp_id *ret)
{
	ret->handle = 1;
	return fake.configuring ? 0 : LOCKED;
}

EXPORTED int rocprofiler_assign_callback_thread(struct sk_rocp_id buffer, struct sk_rocp_id thread)
{
	return fake.configuring ? 0 : LOCKED;
}

EXPORTED int rocprofiler_get_timestamp(uint64_t *ret)
{
	*ret = stamp(read_clock(CLOCK_MONOTONIC));
	return 0;
}

EXPORTED int rocprofiler_query_available_agents(uint32_t version, sk_rocp_agents_call call,
						size_t size, void *data)
{
	static struct sk_rocp_agent agents[FAKE_DEVICES + 1];
	const void *list[FAKE_DEVICES + 1];
	uint32_t first_minor = (uint32_t)number("FAKE_RENDER_MINOR", 128);

	for (int i = 0; i <= FAKE_DEVICES; i++) {
		agents[i] = (struct sk_rocp_agent){
			.size = sizeof(agents[i]) + 64,
			.id = {(uint64_t)(CPU_AGENT + i)},
			.type = i ? SK_ROCP_AGENT_GPU : 1,
			.name = "gfx942",
			.product = i ? "SIM MI300X" : "SIM CPU",
			.render_minor = i ? first_minor + (uint32_t)i - 1 : 0,
			.logical_node_of_type = i ? i - 1 : 0,
		};
		list[i] = &agents[i];
	}
	return call(version, list, FAKE_DEVICES + 1, data);
}

/* ---- delivery ---- */

static void hand_over(void)
{
	static struct sk_rocp_header headers[PENDING], *list[PENDING];
	struct pending *taken;

	pthread_mutex_lock(&fake.delivery);
	pthread_mutex_lock(&fake.lock);
	size_t count = fake.buffered;
	uint64_t dropped = fake.dropped;

	taken = malloc((count + 1) * sizeof(*taken));
	memcpy(taken, fake.buffer, count * sizeof(*taken));
	fake.buffered = 0;
	pthread_mutex_unlock(&fake.lock);
	for (size_t i = 0; i < count; i++) {
		headers[i] = (struct sk_rocp_header){
			SK_ROCP_CATEGORY_TRACING,
			taken[i].is_copy ? SK_ROCP_BUFFER_MEMORY_COPY
					 : SK_ROCP_BUFFER_KERNEL_DISPATCH,
			taken[i].is_copy ? (void *)&taken[i].copy : (void *)&taken[i].kernel};
		list[i] = &headers[i];
	}
	if ((count || dropped) && fake.on_buffer)
		fake.on_buffer((struct sk_rocp_id){1}, (struct sk_rocp_id){1}, list, count, NULL,
			       dropped);
	free(taken);
	pthread_mutex_unlock(&fake.delivery);
}

/* Deliver records in one thread of the library, whichever thread asks for them. */
static void *deliver(void *unused)
{
	pthread_mutex_lock(&fake.lock);
	while (!fake.ending) {
		uint64_t asked = fake.asked;

		if (asked == fake.answered) {
			pthread_cond_wait(&fake.changed, &fake.lock);
			continue;
		}
		pthread_mutex_unlock(&fake.lock);
		hand_over();
		pthread_mutex_lock(&fake.lock);
		fake.answered = asked;
		pthread_cond_broadcast(&fake.changed);
	}
	pthread_mutex_unlock(&fake.lock);
	hand_over(); /* the last records */
	return NULL;
}

EXPORTED int rocprofiler_flush_buffer(struct sk_rocp_id buffer)
{
	pthread_mutex_lock(&fake.lock);
	uint64_t mine = fake.hold ? 0 : ++fake.asked;

	pthread_cond_broadcast(&fake.changed);
	while (fake.answered < mine && !fake.ending)
		pthread_cond_wait(&fake.changed, &fake.lock);
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

/* Put a finished launch into the buffer, or drop it. Called with `lock` held. */
static void emplace(const struct pending *pending)
{
	if (fake.buffered == fake.buffer_records)
		fake.dropped++;
	else
		fake.buffer[fake.buffered++] = *pending;
}

static void *signals(void *unused)
{
	pthread_mutex_lock(&fake.lock);
	while (!fake.ending) {
		uint64_t now = read_clock(CLOCK_MONOTONIC);

		while (fake.head != fake.tail && fake.ring[fake.tail % PENDING].due_ns <= now)
			emplace(&fake.ring[fake.tail++ % PENDING]);
		if (fake.buffered >= fake.call_at && !fake.hold)
			fake.asked++;
		pthread_cond_broadcast(&fake.changed);
		pthread_mutex_unlock(&fake.lock);
		nanosleep(&(struct timespec){0, 200000}, NULL);
		pthread_mutex_lock(&fake.lock);
	}
	pthread_mutex_unlock(&fake.lock);
	return NULL;
}

/* ---- what an application calls ---- */

static const char *const NAMES[FAKE_KERNELS] = {"saxpy.kd", "_Z6reducePf.kd", "idle.kd"};

static pthread_once_t fake_code = PTHREAD_ONCE_INIT;

/* Load the code at the first launch, as HIP does. */
static void load_code(void)
{
	for (uint64_t kernel = 0; kernel < FAKE_KERNELS; kernel++) {
		struct sk_rocp_symbol symbol = {sizeof(symbol) + 80, kernel + 1, 1, NAMES[kernel]};
		struct sk_rocp_callback_record record = {
			.tid = own_tid(),
			.kind = SK_ROCP_CALLBACK_CODE_OBJECT,
			.operation = SK_ROCP_SYMBOL_REGISTER,
			.phase = SK_ROCP_PHASE_ENTER,
			.payload = &symbol,
		};
		union sk_rocp_data own = {0};

		for (unsigned i = 0; i < fake.context_count; i++)
			if (fake.contexts[i].active && fake.contexts[i].code)
				fake.contexts[i].code(record, &own, NULL);
	}
}

/* Return the contexts that want a record of this launch, a bit each, and the ids that they give it.
 */
static unsigned ask(bool is_copy, uint64_t internal, union sk_rocp_data *external)
{
	uint32_t kind = is_copy ? SK_ROCP_EXTERNAL_MEMORY_COPY : SK_ROCP_EXTERNAL_KERNEL_DISPATCH;
	unsigned wanted = 0;

	for (unsigned i = 0; i < fake.context_count; i++) {
		struct context *context = &fake.contexts[i];

		if (!context->active || !(is_copy ? context->copies : context->kernels))
			continue;
		wanted |= 1u << i;
		if (context->external)
			context->external(own_tid(), (struct sk_rocp_id){i + 1}, kind, 1, internal,
					  external, NULL);
	}
	return wanted;
}

static void call_back(bool is_copy, uint32_t phase, int32_t operation, uint64_t internal,
		      void *payload)
{
	struct sk_rocp_callback_record record = {
		.tid = own_tid(),
		.correlation = {.internal = internal},
		.kind = is_copy ? SK_ROCP_CALLBACK_MEMORY_COPY : SK_ROCP_CALLBACK_KERNEL_DISPATCH,
		.operation = operation,
		.phase = phase,
		.payload = payload,
	};
	union sk_rocp_data own = {0};

	for (unsigned i = 0; i < fake.context_count; i++) {
		struct context *context = &fake.contexts[i];
		sk_rocp_callback call = is_copy ? context->copy : context->launch;

		if (context->active && call)
			call(record, &own, NULL);
	}
}

/* Return when the device begins with a launch: devices work in order, 2 us after the call. Called
 * with `lock` held. */
static void schedule(unsigned device, uint64_t ns, struct fake_truth *truth)
{
	uint64_t from = read_clock(CLOCK_MONOTONIC) + 2000;

	if (fake.busy_until[device] > from)
		from = fake.busy_until[device];
	truth->start_ns = from;
	truth->end_ns = fake.busy_until[device] = from + ns;
}

static void enqueue(struct pending *pending, unsigned device, uint64_t ns, struct fake_truth *truth)
{
	pthread_mutex_lock(&fake.lock);
	/* Stamps of one device rise, and so do the truths, which are printed in this order. */
	schedule(device, ns, truth);
	pending->due_ns = truth->end_ns;
	if (pending->is_copy) {
		pending->copy.start_ns = stamp(truth->start_ns);
		pending->copy.end_ns = stamp(truth->end_ns);
	} else {
		pending->kernel.start_ns = stamp(truth->start_ns);
		pending->kernel.end_ns = stamp(truth->end_ns);
	}
	while (truth->timed && fake.head - fake.tail == PENDING)
		pthread_cond_wait(&fake.changed, &fake.lock);
	if (truth->timed)
		fake.ring[fake.head++ % PENDING] = *pending;
	if (fake.truth_count < TRUTHS)
		fake.truths[fake.truth_count++] = *truth;
	pthread_mutex_unlock(&fake.lock);
}

static uint64_t next_correlation(void)
{
	return __atomic_add_fetch(&fake.correlation, 1, __ATOMIC_RELAXED);
}

EXPORTED void fake_launch(unsigned kernel, unsigned device, uint64_t ns)
{
	struct fake_truth truth = {.tid = own_tid(), .kernel = kernel, .device = device};
	struct sk_rocp_kernel_call call = {.size = sizeof(call)};
	struct pending pending = {0};
	uint64_t internal = next_correlation();
	union sk_rocp_data external = {0};

	pthread_once(&fake_code, load_code);
	truth.called_ns = read_clock(CLOCK_MONOTONIC);
	call.dispatch = (struct sk_rocp_dispatch){.size = 72,
						  .agent = {GPU_AGENT + device},
						  .queue = {device + 5},
						  .kernel_id = kernel + 1};
	truth.timed = ask(false, internal, &external) != 0;
	call_back(false, SK_ROCP_PHASE_ENTER, SK_ROCP_KERNEL_ENQUEUE, internal, &call);
	pending.kernel = (struct sk_rocp_kernel_record){.size = sizeof(pending.kernel),
							.kind = SK_ROCP_BUFFER_KERNEL_DISPATCH,
							.operation = 2,
							.correlation = {internal, external},
							.tid = truth.tid,
							.dispatch = call.dispatch};
	enqueue(&pending, device, ns, &truth);
	call_back(false, SK_ROCP_PHASE_EXIT, SK_ROCP_KERNEL_ENQUEUE, internal, &call);
}

EXPORTED void fake_copy(unsigned direction, unsigned device, uint64_t bytes, uint64_t ns)
{
	struct fake_truth truth = {.called_ns = read_clock(CLOCK_MONOTONIC),
				   .tid = own_tid(),
				   .bytes = bytes,
				   .kernel = 100 + direction,
				   .device = device};
	struct sk_rocp_copy_call call = {.size = sizeof(call), .bytes = bytes};
	struct pending pending = {.is_copy = true};
	uint64_t internal = next_correlation();
	union sk_rocp_data external = {0};
	bool to_host = direction == SK_ROCP_COPY_DEVICE_TO_HOST;

	call.to.handle = to_host ? CPU_AGENT : GPU_AGENT + device;
	call.from.handle =
		direction == SK_ROCP_COPY_HOST_TO_DEVICE ? CPU_AGENT : GPU_AGENT + device;
	truth.timed = ask(true, internal, &external) != 0;
	call_back(true, SK_ROCP_PHASE_ENTER, (int32_t)direction, internal, &call);
	pending.copy = (struct sk_rocp_copy_record){.size = sizeof(pending.copy) + 16,
						    .kind = SK_ROCP_BUFFER_MEMORY_COPY,
						    .operation = direction,
						    .correlation = {internal, external},
						    .tid = truth.tid,
						    .to = call.to,
						    .from = call.from,
						    .bytes = bytes};
	enqueue(&pending, device, ns, &truth);
}

EXPORTED void fake_wait(void)
{
	pthread_mutex_lock(&fake.lock);
	while (fake.head != fake.tail)
		pthread_cond_wait(&fake.changed, &fake.lock);
	pthread_mutex_unlock(&fake.lock);
}

EXPORTED const struct fake_truth *fake_done(uint64_t *count)
{
	*count = fake.truth_count;
	return fake.truths;
}

/* End the library: it delivers the last records, then the tool ends. */
static void end(void)
{
	pthread_mutex_lock(&fake.lock);
	fake.ending = true;
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
	pthread_join(fake.signals, NULL);
	pthread_join(fake.deliverer, NULL);
	if (fake.tool && fake.tool->finalize)
		fake.tool->finalize(fake.tool->data);
}

static void load_tool(const char *path)
{
	struct sk_rocp_client client = {NULL, 1};
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct sk_rocp_configured *(*configure)(uint32_t, const char *, uint32_t,
						struct sk_rocp_client *) = NULL;

	if (!library) {
		fprintf(stderr, "no tool: %s\n", dlerror());
		exit(3);
	}
	configure = (struct sk_rocp_configured *
		     (*)(uint32_t, const char *, uint32_t, struct sk_rocp_client *))
		dlsym(library, "rocprofiler_configure");
	fake.configuring = true;
	fake.tool = configure((uint32_t)number("FAKE_VERSION", 10000), "SIM", 0, &client);
	if (fake.tool && fake.tool->initialize(NULL, fake.tool->data))
		fake.tool = NULL;
	fake.configuring = false;
}

EXPORTED void fake_init(void)
{
	const char *tools = getenv("ROCP_TOOL_LIBRARIES");

	fake.ring = calloc(PENDING, sizeof(*fake.ring));
	fake.truths = calloc(TRUTHS, sizeof(*fake.truths));
	fake.hold = getenv("FAKE_HOLD") != NULL;
	fake.skew_ns = number("FAKE_SKEW_NS", 0);
	fake.drift_ppb = number("FAKE_DRIFT_PPB", 0);
	fake.origin_ns = read_clock(CLOCK_MONOTONIC);
	atexit(end);
	if (tools)
		load_tool(tools);
	pthread_create(&fake.signals, NULL, signals, NULL);
	pthread_create(&fake.deliverer, NULL, deliver, NULL);
}
