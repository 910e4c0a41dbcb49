/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "runner/site/clock.h"
#include "runner/spawner/conn.h"
#include "runner/spawner/shim_pool.h"
#include "runner/gate/gate.h"
#include "runner/site/log.h"
#include "runner/site/own.h"

enum {
	EVENTS = 64,
	REFUSAL_TEXT = 120,
	LAUNCHES_PER_FRAME = 1024,
	SCAN_MS = 2,
	/* Tags of epoll events; a shim's tag is its slot number. */
	TAG_LISTEN = SK_SLOTS_MAX,
	TAG_SIGNAL,
	TAG_BELL,
	TAG_CONN,
	EXIT_OTHER = 1,
	EXIT_REFUSED = 2,
	EXIT_CORRUPT = 3,
};

static struct {
	struct sk_runner_site *site;
	struct sk_runner_pool pool;
	struct sk_runner_conn conn[SK_CONNS_MAX];
	int epoll;
	int listener;
	int signals;
	bool leaving;
} spawner;

/* --- events ------------------------------------------------------------------------------------
 */

static void report_ready(void *context, uint32_t slot)
{
	for (uint32_t i = 0; i < SK_CONNS_MAX; i++)
		if (spawner.conn[i].fd >= 0)
			sk_runner_bit_set(spawner.conn[i].ready, slot);
}

static void report_started(void *context, uint32_t slot)
{
	for (uint32_t i = 0; i < SK_CONNS_MAX; i++)
		if (spawner.conn[i].fd >= 0)
			sk_runner_bit_set(spawner.conn[i].started, slot);
}

static void report_ended(void *context, uint32_t slot)
{
	for (uint32_t i = 0; i < SK_CONNS_MAX; i++)
		if (spawner.conn[i].fd >= 0)
			sk_runner_bit_set(spawner.conn[i].ended, slot);
}

static const struct sk_runner_pool_reports reports = {report_ready, report_started, report_ended};

/* --- requests -------------------------------------------------------------------------------- */

static void mark_all(struct sk_runner_conn *conn)
{
	const struct sk_runner_table *table = spawner.pool.table;

	for (uint32_t i = 0; i < SK_SLOTS_MAX; i++) {
		enum sk_runner_slot_state state = sk_runner_slot_state(&table->slot[i]);

		if (state >= SK_SLOT_STARTED && table->slot[i].started.pid &&
		    !spawner.pool.starting.place[i] &&
		    !(table->slot[i].control.announced & SK_EVENT_STARTED))
			sk_runner_bit_set(conn->started, i);
		if (state == SK_SLOT_ENDED)
			sk_runner_bit_set(conn->ended, i);
		if (sk_runner_slot_waits(&table->slot[i]))
			sk_runner_bit_set(conn->ready, i);
	}
}

static uint32_t add_feature(char *text, uint32_t at, uint32_t size, const char *name, bool works,
			    const char *why)
{
	char escaped[6 * SK_SITE_TEXT];

	sk_runner_json_escape(why, escaped, sizeof(escaped));
	return at + (uint32_t)snprintf(text + at, size - at, "%s\"%s\":[%s,\"%s\"]",
				       text[at - 1] == '{' ? "" : ",", name,
				       works ? "true" : "false", escaped);
}

static void greet(struct sk_runner_conn *conn, const struct sk_runner_frame *frame)
{
	static char text[16384];
	const struct sk_runner_site *site = spawner.site;
	char jobs[6 * SK_SITE_PATH];
	uint32_t at;

	sk_runner_json_escape(site->cgroups ? site->jobs : "", jobs, sizeof(jobs));
	at = (uint32_t)snprintf(text, sizeof(text),
				"{\"wire\":%d,\"pid\":%d,\"jobs_max\":%" PRIu32
				",\"cgroup\":\"%s\",\"features\":{",
				SK_WIRE_VERSION, getpid(), spawner.pool.jobs_max, jobs);
	at = add_feature(text, at, sizeof(text), "cgroup", site->cgroups, site->cgroup_why);
	at = add_feature(text, at, sizeof(text), "gate", site->gate, site->gate_why);
	for (int i = 0; i < SK_CONTROLLERS; i++)
		at = add_feature(text, at, sizeof(text), sk_runner_controller_name[i],
				 site->controller[i].where != SK_NOWHERE, site->controller[i].why);
	at = add_feature(text, at, sizeof(text), "node_cap", site->node_cap, site->node_cap_why);
	at = add_feature(text, at, sizeof(text), "oom", site->oom_held, site->oom_why);
	at = add_feature(text, at, sizeof(text), "users", site->root,
			 site->root ? "jobs run as their owners"
				    : "not root: jobs run as this user");
	at += (uint32_t)snprintf(text + at, sizeof(text) - at, "}}");
	sk_runner_conn_reply(conn, SK_FEATURES, frame->request, 0, text, at, NULL, 0);
	/* Report to the other connections first, or their events would come here twice. */
	sk_runner_pool_scan(&spawner.pool, &reports, NULL);
	memset(conn->ready, 0, sizeof(conn->ready));
	memset(conn->started, 0, sizeof(conn->started));
	memset(conn->ended, 0, sizeof(conn->ended));
	conn->greeted = true;
	mark_all(conn);
}

/** Take one launch; if it is refused, append the reason to `refusals`. Bytes read, 0 if unreadable.
 */
static uint32_t start_one(const char *at, uint32_t left, uint32_t index, uint64_t now,
			  char *refusals, uint32_t *filled)
{
	const struct sk_runner_launch *launch = (const struct sk_runner_launch *)(const void *)at;
	struct sk_runner_refusal refusal = {.index = index};
	struct sk_runner_launch_view view;
	const char *why = "";
	int error = sk_runner_launch_parse(at, left, &view, &why);

	if (error == -EBADMSG)
		return 0;
	if (!error)
		error = sk_runner_pool_take(&spawner.pool, &view, now, &why);
	if (error) {
		refusal.error = -error;
		refusal.text_bytes = (uint32_t)strnlen(why, REFUSAL_TEXT);
		memcpy(refusals + *filled, &refusal, sizeof(refusal));
		memcpy(refusals + *filled + sizeof(refusal), why, refusal.text_bytes);
		*filled += (uint32_t)sizeof(refusal) + refusal.text_bytes;
	}
	return launch->size;
}

static bool start_all(struct sk_runner_conn *conn, const struct sk_runner_frame *frame)
{
	static char
		refusals[LAUNCHES_PER_FRAME * (sizeof(struct sk_runner_refusal) + REFUSAL_TEXT)];
	uint32_t filled = 0, refused = 0, left = frame->size - (uint32_t)sizeof(*frame);
	const char *at = (const char *)(frame + 1);
	uint64_t now = sk_runner_clock_ns(CLOCK_MONOTONIC);

	_Static_assert(sizeof(refusals) < SK_REPLY_ROOM, "a reply fits");
	if (frame->count > LAUNCHES_PER_FRAME)
		return false;
	for (uint32_t i = 0; i < frame->count; i++) {
		uint32_t before = filled;
		uint32_t used = start_one(at, left, i, now, refusals, &filled);

		if (!used)
			return false;
		refused += filled > before;
		at += used;
		left -= used;
	}
	sk_runner_conn_reply(conn, SK_TAKEN, frame->request, (uint16_t)refused, refusals, filled,
			     NULL, 0);
	return true;
}

static void reply_done(struct sk_runner_conn *conn, const struct sk_runner_frame *frame, int status,
		       uint64_t value, const char *text)
{
	struct sk_runner_done done = {
		.status = status,
		.text_bytes = (uint32_t)(status ? strlen(text) : 0),
		.value = value,
	};

	sk_runner_conn_reply(conn, SK_DONE, frame->request, 0, &done, sizeof(done), text,
			     done.text_bytes);
}

static bool stop_one(struct sk_runner_conn *conn, const struct sk_runner_frame *frame)
{
	const struct sk_runner_stop *stop =
		(const struct sk_runner_stop *)(const void *)(frame + 1);
	uint32_t size = frame->size - (uint32_t)sizeof(*frame);

	if (size < sizeof(*stop) || stop->reason_bytes > size - sizeof(*stop))
		return false;
	reply_done(conn, frame, sk_runner_pool_stop(&spawner.pool, stop, (const char *)(stop + 1)),
		   0, "no such job here");
	return true;
}

static bool feed_one(struct sk_runner_conn *conn, const struct sk_runner_frame *frame)
{
	const struct sk_runner_stdin *head =
		(const struct sk_runner_stdin *)(const void *)(frame + 1);
	uint32_t size = frame->size - (uint32_t)sizeof(*frame);
	const char *why = "";
	uint64_t have = 0;
	int status;

	if (size < sizeof(*head) || size - sizeof(*head) > SK_STDIN_MAX)
		return false;
	status = sk_runner_pool_feed(&spawner.pool, head, (const char *)(head + 1),
				     size - (uint32_t)sizeof(*head), &have, &why);
	reply_done(conn, frame, status, have, why);
	return true;
}

static bool release_all(struct sk_runner_conn *conn, const struct sk_runner_frame *frame)
{
	const struct sk_runner_key *keys = (const struct sk_runner_key *)(const void *)(frame + 1);

	if (frame->size - sizeof(*frame) != frame->count * sizeof(*keys))
		return false;
	sk_runner_pool_release(&spawner.pool, keys, frame->count);
	reply_done(conn, frame, 0, 0, "");
	return true;
}

static bool acknowledge_all(const struct sk_runner_frame *frame)
{
	const struct sk_runner_acknowledge *what =
		(const struct sk_runner_acknowledge *)(const void *)(frame + 1);

	if (frame->size - sizeof(*frame) != frame->count * sizeof(*what))
		return false;
	for (uint32_t i = 0; i < frame->count; i++)
		sk_runner_pool_acknowledge(&spawner.pool, &what[i]);
	return true;
}

static bool tell_known(struct sk_runner_conn *conn, const struct sk_runner_frame *frame)
{
	for (uint32_t i = 0; i < SK_SLOTS_MAX; i++)
		if (sk_runner_slot_state(&spawner.pool.table->slot[i]) != SK_SLOT_FREE)
			sk_runner_bit_set(conn->known, i);
	conn->telling_known = true;
	conn->known_request = frame->request;
	return true;
}

/** Handle a frame; false if it is invalid, and the connection is then closed. */
static bool handle(struct sk_runner_conn *conn, const struct sk_runner_frame *frame)
{
	if (!conn->greeted && frame->kind != SK_HELLO)
		return false;
	switch (frame->kind) {
	case SK_HELLO:
		greet(conn, frame);
		return true;
	case SK_START:
		return start_all(conn, frame);
	case SK_STOP:
		return stop_one(conn, frame);
	case SK_STDIN:
		return feed_one(conn, frame);
	case SK_ACKNOWLEDGE:
		return acknowledge_all(frame);
	case SK_KNOWN:
		return tell_known(conn, frame);
	case SK_RELEASE:
		return release_all(conn, frame);
	default:
		return false;
	}
}

/* --- connections ----------------------------------------------------------------------------- */

static void close_conn(struct sk_runner_conn *conn, const char *why)
{
	sk_runner_log("info", "agent left", "%s", why);
	close(conn->fd);
	conn->fd = -1;
}

/** Handle whole frames while answers have room; false if there was none. */
static bool serve(struct sk_runner_conn *conn)
{
	const struct sk_runner_frame *frame;
	bool bad = false, any = false;

	while (sk_runner_conn_ready(conn) && (frame = sk_runner_conn_next(conn, &bad))) {
		any = true;
		if (!handle(conn, frame)) {
			close_conn(conn, "a frame makes no sense");
			return false;
		}
	}
	if (bad)
		close_conn(conn, "a frame's size makes no sense");
	return any && !bad;
}

static void accept_conn(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int fd = accept4(spawner.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) ||
	    (peer.uid != geteuid() && peer.uid != 0)) {
		sk_runner_log("warning", "a stranger was turned away", "uid %u", peer.uid);
		close(fd);
		return;
	}
	for (uint32_t i = 0; i < SK_CONNS_MAX; i++) {
		if (spawner.conn[i].fd >= 0)
			continue;
		sk_runner_conn_open(&spawner.conn[i], fd);
		spawner.conn[i].interest = EPOLLIN;
		event.data.u64 = TAG_CONN + i;
		epoll_ctl(spawner.epoll, EPOLL_CTL_ADD, fd, &event);
		return;
	}
	sk_runner_log("warning", "too many connections", "at most %d", SK_CONNS_MAX);
	close(fd);
}

/** Wait for input while answers have room, and for room in the socket if output is left. */
static void set_interest(uint32_t index)
{
	struct sk_runner_conn *conn = &spawner.conn[index];
	struct epoll_event event = {.data.u64 = TAG_CONN + index};

	event.events = sk_runner_conn_ready(conn) ? EPOLLIN : 0;
	event.events |= conn->out_filled || conn->telling_known ? EPOLLOUT : 0;
	if (event.events == conn->interest)
		return;
	conn->interest = event.events;
	epoll_ctl(spawner.epoll, EPOLL_CTL_MOD, conn->fd, &event);
}

/** Make frames and send them, then handle requests that waited for the room. */
static void flush(uint32_t index)
{
	struct sk_runner_conn *conn = &spawner.conn[index];

	do {
		sk_runner_conn_fill(conn, spawner.pool.table);
		if (!sk_runner_conn_flush(conn)) {
			close_conn(conn, "the connection was closed");
			return;
		}
	} while (serve(conn));
	if (conn->fd >= 0)
		set_interest(index);
}

static void on_conn(uint32_t index, uint32_t events)
{
	struct sk_runner_conn *conn = &spawner.conn[index];

	if (conn->fd < 0)
		return;
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && sk_runner_conn_ready(conn) &&
	    !sk_runner_conn_receive(conn)) {
		close_conn(conn, "the connection was closed");
		return;
	}
	serve(conn);
}

/* --- loop ------------------------------------------------------------------------------------ */

static bool dispatch(const struct epoll_event *event)
{
	uint64_t tag = event->data.u64;

	if (tag < SK_SLOTS_MAX)
		sk_runner_pool_shim_gone(&spawner.pool, (uint32_t)tag);
	else if (tag == TAG_LISTEN)
		accept_conn();
	else if (tag == TAG_SIGNAL)
		spawner.leaving = true;
	else if (tag == TAG_BELL)
		return true;
	else
		on_conn((uint32_t)(tag - TAG_CONN), event->events);
	return false;
}

static void loop(void)
{
	struct epoll_event events[EVENTS];
	uint64_t scan_at = 0;

	while (!spawner.leaving) {
		uint64_t now = sk_runner_clock_ns(CLOCK_MONOTONIC);
		int timeout = sk_runner_pool_timeout(&spawner.pool, now);
		int count = epoll_wait(spawner.epoll, events, EVENTS, timeout);
		bool rung = count <= 0;

		for (int i = 0; i < count; i++)
			rung |= dispatch(&events[i]);
		now = sk_runner_clock_ns(CLOCK_MONOTONIC);
		if (rung || spawner.pool.rung || now >= scan_at) {
			sk_runner_pool_scan(&spawner.pool, &reports, NULL);
			scan_at = sk_runner_after(now, SCAN_MS * SK_MS);
		}
		for (uint32_t i = 0; i < SK_CONNS_MAX; i++)
			if (spawner.conn[i].fd >= 0)
				flush(i);
		/* Starts that `flush` took are younger than `now`: they have lasted no time. */
		sk_runner_pool_tick(&spawner.pool, now);
	}
}

/* --- start ----------------------------------------------------------------------------------- */

static int watch(int fd, uint64_t tag, uint32_t flags)
{
	struct epoll_event event = {.events = EPOLLIN | flags, .data.u64 = tag};

	return fd < 0 || epoll_ctl(spawner.epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t mask;
	int error = 0, fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(path); /* the earlier owner is gone: this process holds the journal's lock */
	mask = umask(0177);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 16))
		error = -errno;
	umask(mask);
	if (error)
		close(fd);
	return error ? error : fd;
}

static int fail(const char *event, const char *what, int error)
{
	sk_runner_log("error", event, "%s: %s", what, strerror(-error));
	return error == -EBUSY ? EXIT_REFUSED : error == -EBADMSG ? EXIT_CORRUPT : EXIT_OTHER;
}

static int open_loop(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	spawner.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	spawner.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (spawner.epoll < 0 || watch(spawner.signals, TAG_SIGNAL, 0))
		return -errno;
	sk_runner_site_place(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), SK_FD_BELL);
	/* Edge-triggered: every write is one event, so the counter need not be read. */
	return watch(SK_FD_BELL, TAG_BELL, EPOLLET);
}

int sk_runner_spawner_run(struct sk_runner_site *site,
			  const struct sk_runner_spawner_options *options)
{
	char why[SK_TEXT_MAX + 1];
	int error = sk_runner_own(options->journal);

	if (error)
		return fail(error == -EBUSY ? "another spawner owns this journal"
					    : "the journal cannot be used",
			    options->journal, error);
	spawner.site = site;
	for (uint32_t i = 0; i < SK_CONNS_MAX; i++)
		spawner.conn[i].fd = -1;
	error = open_loop();
	if (error)
		return fail("no event loop", "epoll or signalfd", error);
	error = sk_runner_pool_open(&spawner.pool, site, options->journal, spawner.epoll,
				    options->jobs_max, why);
	if (error)
		return fail(error == -EBADMSG ? "the journal is corrupt"
					      : "the journal cannot be used",
			    why, error);
	spawner.listener = listen_at(options->socket);
	if (spawner.listener < 0)
		return fail("the socket cannot be made", options->socket, spawner.listener);
	error = watch(spawner.listener, TAG_LISTEN, 0);
	if (error)
		return fail("no event loop", "epoll", error);
	sk_runner_log("info", "ready", "%s; cgroup: %s; gate: %s", options->socket,
		      site->cgroup_why, site->gate_why);
	loop();
	unlink(options->socket);
	return 0;
}
