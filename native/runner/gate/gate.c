/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/gate/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/gate/device_gate.h"

enum { PROGRAMS_MAX = 64, MAPS_MAX = 8 };

static int bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	long result = syscall(SYS_bpf, command, attributes, sizeof(*attributes));

	return result < 0 ? -errno : (int)result;
}

static int open_by_id(enum bpf_cmd command, uint32_t id)
{
	union bpf_attr attributes = {0};

	attributes.prog_id = id; /* map_id lies in the same place */
	return bpf(command, &attributes);
}

static int read_info(int fd, void *info, uint32_t size)
{
	union bpf_attr attributes = {0};

	attributes.info.bpf_fd = (uint32_t)fd;
	attributes.info.info_len = size;
	attributes.info.info = (uintptr_t)info;
	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes);
}

/** Read the ids of programs attached to the jobs cgroup itself; their number or negative errno. */
static int query(uint32_t ids[PROGRAMS_MAX])
{
	union bpf_attr attributes = {0};
	int error;

	attributes.query.target_fd = SK_FD_JOBS;
	attributes.query.attach_type = BPF_CGROUP_DEVICE;
	attributes.query.prog_ids = (uintptr_t)ids;
	attributes.query.prog_cnt = PROGRAMS_MAX;
	error = bpf(BPF_PROG_QUERY, &attributes);
	return error < 0 ? error : (int)attributes.query.prog_cnt;
}

/** Return a descriptor of the gate attached to the jobs cgroup, with its map ids; -ENOENT if none.
 */
static int find_program(uint32_t maps[MAPS_MAX], uint32_t *ret_maps)
{
	uint32_t ids[PROGRAMS_MAX];
	int count = query(ids);

	for (int i = 0; i < count; i++) {
		struct bpf_prog_info info = {.nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)maps};
		int fd = open_by_id(BPF_PROG_GET_FD_BY_ID, ids[i]);

		if (fd < 0)
			return fd;
		if (!read_info(fd, &info, sizeof(info)) && !strcmp(info.name, "device_gate")) {
			*ret_maps = info.nr_map_ids < MAPS_MAX ? info.nr_map_ids : MAPS_MAX;
			return fd;
		}
		close(fd);
	}
	return count < 0 ? count : -ENOENT;
}

static bool place_map(uint32_t id)
{
	struct bpf_map_info info = {0};
	int fd = open_by_id(BPF_MAP_GET_FD_BY_ID, id);

	if (fd < 0)
		return false;
	if (!read_info(fd, &info, sizeof(info))) {
		if (!strcmp(info.name, "stoker_grants") &&
		    info.key_size == sizeof(struct sk_runner_grant_key) && info.value_size == 4) {
			sk_runner_site_place(fd, SK_FD_GRANTS);
			return true;
		}
		if (!strcmp(info.name, "stoker_denied") &&
		    info.value_size == sizeof(struct sk_runner_denied)) {
			sk_runner_site_place(fd, SK_FD_DENIED);
			return true;
		}
	}
	close(fd);
	return false;
}

/** Put both maps in place: 0; -ENOENT if no gate is attached; -EPROTO if it is another version. */
static int find_gate(void)
{
	uint32_t maps[MAPS_MAX], count = 0;
	int placed = 0, fd = find_program(maps, &count);

	if (fd < 0)
		return fd;
	close(fd);
	for (uint32_t i = 0; i < count; i++)
		placed += place_map(maps[i]);
	return placed == 2 ? 0 : -EPROTO;
}

static void exec_loader(const char *jobs, int output)
{
	char self[SK_SITE_PATH], program[SK_SITE_PATH + 32], object[SK_SITE_PATH + 48];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *folder;

	self[length < 0 ? 0 : length] = 0;
	folder = dirname(self);
	snprintf(program, sizeof(program), "%s/stoker-gate", folder);
	snprintf(object, sizeof(object), "%s/../lib/device_gate.bpf.o", folder);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	execl(program, program, jobs, object, (char *)NULL);
	printf("built without the device gate (clang or libbpf was missing): %s", strerror(errno));
	fflush(stdout);
	_exit(127);
}

/** Run `stoker-gate`; 0, or -EIO with its last line in `ret_why`. */
static int load_gate(const char *jobs, char *ret_why)
{
	int ends[2], status = 0;
	ssize_t got;
	size_t filled = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid == 0)
		exec_loader(jobs, ends[1]);
	close(ends[1]);
	while ((got = read(ends[0], ret_why + filled, SK_SITE_TEXT - 1 - filled)) > 0)
		filled += (size_t)got;
	ret_why[filled] = 0;
	ret_why[strcspn(ret_why, "\n")] = 0;
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

void sk_runner_gate_open(struct sk_runner_site *site)
{
	int error;

	site->gate = false;
	if (!site->cgroups) {
		snprintf(site->gate_why, SK_SITE_TEXT, "no cgroups: %.200s", site->cgroup_why);
		return;
	}
	error = find_gate();
	if (error == -ENOENT) {
		error = load_gate(site->jobs, site->gate_why);
		if (error)
			return;
		error = find_gate();
	}
	site->gate = error == 0;
	if (error == -EPROTO)
		snprintf(site->gate_why, SK_SITE_TEXT,
			 "a gate of another version is attached; take the node down and up");
	else if (error)
		snprintf(site->gate_why, SK_SITE_TEXT, "bpf(2) cannot be used: %s",
			 strerror(-error));
	else
		snprintf(site->gate_why, SK_SITE_TEXT, "cgroup device program at %.200s",
			 site->jobs);
}

static int map_call(enum bpf_cmd command, int map, const void *key, const void *value)
{
	union bpf_attr attributes = {0};

	attributes.map_fd = (uint32_t)map;
	attributes.key = (uintptr_t)key;
	attributes.value = (uintptr_t)value;
	return bpf(command, &attributes);
}

int sk_runner_gate_grant(uint64_t cgroup_id, const struct sk_runner_device *devices, int count)
{
	const uint32_t access = BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE;

	for (int i = 0; i < count; i++) {
		struct sk_runner_grant_key key = {cgroup_id, devices[i].major, devices[i].minor};
		int error = map_call(BPF_MAP_UPDATE_ELEM, SK_FD_GRANTS, &key, &access);

		if (error)
			return error;
	}
	return 0;
}

void sk_runner_gate_revoke(uint64_t cgroup_id, const struct sk_runner_device *devices, int count)
{
	for (int i = 0; i < count; i++) {
		struct sk_runner_grant_key key = {cgroup_id, devices[i].major, devices[i].minor};

		map_call(BPF_MAP_DELETE_ELEM, SK_FD_GRANTS, &key, NULL);
	}
}

void sk_runner_gate_revoke_all(uint64_t cgroup_id)
{
	struct sk_runner_grant_key key, next = {0};
	int error = map_call(BPF_MAP_GET_NEXT_KEY, SK_FD_GRANTS, NULL, &next);

	/* Deleting a key during the walk restarts it. That is bounded, because every pass shrinks
	 * the map. */
	for (int steps = 0; !error && steps < 2 * SK_GRANTS_MAX; steps++) {
		key = next;
		error = map_call(BPF_MAP_GET_NEXT_KEY, SK_FD_GRANTS, &key, &next);
		if (key.cgroup_id == cgroup_id)
			map_call(BPF_MAP_DELETE_ELEM, SK_FD_GRANTS, &key, NULL);
	}
}

void sk_runner_gate_denied(uint64_t cgroup_id, char *ret, int size)
{
	struct sk_runner_denied denied;

	ret[0] = 0;
	if (map_call(BPF_MAP_LOOKUP_ELEM, SK_FD_DENIED, &cgroup_id, &denied))
		return;
	snprintf(ret, (size_t)size,
		 "opening device %" PRIu32 ":%" PRIu32 " was refused (%" PRIu64
		 " refusals of devices not granted)",
		 denied.major, denied.minor, (uint64_t)denied.count);
	map_call(BPF_MAP_DELETE_ELEM, SK_FD_DENIED, &cgroup_id, NULL);
}

void sk_runner_gate_close(void)
{
	uint32_t maps[MAPS_MAX], count;
	int fd;

	while ((fd = find_program(maps, &count)) >= 0) {
		union bpf_attr attributes = {0};
		int error;

		attributes.target_fd = SK_FD_JOBS;
		attributes.attach_bpf_fd = (uint32_t)fd;
		attributes.attach_type = BPF_CGROUP_DEVICE;
		error = bpf(BPF_PROG_DETACH, &attributes);
		close(fd);
		if (error)
			return;
	}
}
