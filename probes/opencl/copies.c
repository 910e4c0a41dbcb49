/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of every kind, with the bytes they move. Each hook is three lines around the driver's
 * call. A call that blocks has finished when it returns, so its record is made at once. */
#include "launch.h"

static uint64_t box(const size_t region[3])
{
	return region ? (uint64_t)region[0] * region[1] * region[2] : 0;
}

static uint64_t pixels(cl_mem image, const size_t region[3])
{
	size_t bytes = 0;

	sk_cl_next.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof(bytes), &bytes, NULL);
	return box(region) * bytes;
}

static uint64_t whole(cl_uint count, const cl_mem *objects)
{
	uint64_t sum = 0;

	for (cl_uint i = 0; i < count; i++) {
		size_t bytes = 0;

		sk_cl_next.clGetMemObjectInfo(objects[i], CL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
		sum += bytes;
	}
	return sum;
}

static uint64_t sum_of(cl_uint count, const size_t *sizes)
{
	uint64_t sum = 0;

	for (cl_uint i = 0; sizes && i < count; i++)
		sum += sizes[i];
	return sum;
}

/* Return whether this kind is throttled; results can be read at any time. */
static inline bool is_held(unsigned kind)
{
	return kind != SK_KIND_READ && kind != SK_KIND_MAP && kind != SK_KIND_UNMAP &&
	       kind != SK_KIND_SVM_MAP && kind != SK_KIND_SVM_UNMAP;
}

/* Make the call `run` as a copy of `kind`. It sends to `to`, and its last argument is `taken`. */
#define COPY(kind, queue, bytes, blocks, run)                                                      \
	struct sk_cl_launch launch;                                                                \
                                                                                                   \
	if (is_held(kind))                                                                         \
		sk_tracer_throttle();                                                              \
	cl_command_queue to = sk_cl_launch_enter(&launch, queue);                                  \
	cl_event *taken = sk_cl_launch_begin(&launch, kind, 0, event);                             \
	cl_int error = run;                                                                        \
                                                                                                   \
	sk_cl_launch_end(&launch, error, error || !sk_cl_launch_sees(&launch) ? 0 : (bytes));      \
	if (blocks)                                                                                \
		sk_cl_launch_waited(&launch);                                                      \
	return error

/* Make a call that returns a pointer and gives the error by an argument. */
#define MAP(kind, queue, bytes, blocks, run)                                                       \
	struct sk_cl_launch launch;                                                                \
	cl_command_queue to = sk_cl_launch_enter(&launch, queue);                                  \
	cl_event *taken = sk_cl_launch_begin(&launch, kind, 0, event);                             \
	cl_int error = CL_SUCCESS;                                                                 \
	void *mapped = run;                                                                        \
                                                                                                   \
	if (error_ret)                                                                             \
		*error_ret = error;                                                                \
	sk_cl_launch_end(&launch, error, error || !sk_cl_launch_sees(&launch) ? 0 : (bytes));      \
	if (blocks)                                                                                \
		sk_cl_launch_waited(&launch);                                                      \
	return mapped

#define WAITS cl_uint waits, const cl_event *wait, cl_event *event

static cl_int CL_API_CALL on_read(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
				  size_t offset, size_t bytes, void *into, WAITS)
{
	COPY(SK_KIND_READ, queue, bytes, blocking,
	     sk_cl_next.clEnqueueReadBuffer(to, buffer, blocking, offset, bytes, into, waits, wait,
					    taken));
}

static cl_int CL_API_CALL on_write(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
				   size_t offset, size_t bytes, const void *from, WAITS)
{
	COPY(SK_KIND_WRITE, queue, bytes, blocking,
	     sk_cl_next.clEnqueueWriteBuffer(to, buffer, blocking, offset, bytes, from, waits, wait,
					     taken));
}

static cl_int CL_API_CALL on_read_rect(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
				       const size_t *at, const size_t *host_at,
				       const size_t *region, size_t row, size_t slice,
				       size_t host_row, size_t host_slice, void *into, WAITS)
{
	COPY(SK_KIND_READ, queue, box(region), blocking,
	     sk_cl_next.clEnqueueReadBufferRect(to, buffer, blocking, at, host_at, region, row,
						slice, host_row, host_slice, into, waits, wait,
						taken));
}

static cl_int CL_API_CALL on_write_rect(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
					const size_t *at, const size_t *host_at,
					const size_t *region, size_t row, size_t slice,
					size_t host_row, size_t host_slice, const void *from, WAITS)
{
	COPY(SK_KIND_WRITE, queue, box(region), blocking,
	     sk_cl_next.clEnqueueWriteBufferRect(to, buffer, blocking, at, host_at, region, row,
						 slice, host_row, host_slice, from, waits, wait,
						 taken));
}

static cl_int CL_API_CALL on_copy(cl_command_queue queue, cl_mem from, cl_mem into, size_t from_at,
				  size_t into_at, size_t bytes, WAITS)
{
	COPY(SK_KIND_COPY, queue, bytes, false,
	     sk_cl_next.clEnqueueCopyBuffer(to, from, into, from_at, into_at, bytes, waits, wait,
					    taken));
}

static cl_int CL_API_CALL on_copy_rect(cl_command_queue queue, cl_mem from, cl_mem into,
				       const size_t *at, const size_t *host_at,
				       const size_t *region, size_t row, size_t slice,
				       size_t host_row, size_t host_slice, WAITS)
{
	COPY(SK_KIND_COPY, queue, box(region), false,
	     sk_cl_next.clEnqueueCopyBufferRect(to, from, into, at, host_at, region, row, slice,
						host_row, host_slice, waits, wait, taken));
}

static cl_int CL_API_CALL on_fill(cl_command_queue queue, cl_mem buffer, const void *pattern,
				  size_t pattern_bytes, size_t offset, size_t bytes, WAITS)
{
	COPY(SK_KIND_FILL, queue, bytes, false,
	     sk_cl_next.clEnqueueFillBuffer(to, buffer, pattern, pattern_bytes, offset, bytes,
					    waits, wait, taken));
}

static cl_int CL_API_CALL on_read_image(cl_command_queue queue, cl_mem image, cl_bool blocking,
					const size_t *at, const size_t *region, size_t row,
					size_t slice, void *into, WAITS)
{
	COPY(SK_KIND_READ, queue, pixels(image, region), blocking,
	     sk_cl_next.clEnqueueReadImage(to, image, blocking, at, region, row, slice, into, waits,
					   wait, taken));
}

static cl_int CL_API_CALL on_write_image(cl_command_queue queue, cl_mem image, cl_bool blocking,
					 const size_t *at, const size_t *region, size_t row,
					 size_t slice, const void *from, WAITS)
{
	COPY(SK_KIND_WRITE, queue, pixels(image, region), blocking,
	     sk_cl_next.clEnqueueWriteImage(to, image, blocking, at, region, row, slice, from,
					    waits, wait, taken));
}

static cl_int CL_API_CALL on_copy_image(cl_command_queue queue, cl_mem from, cl_mem into,
					const size_t *from_at, const size_t *into_at,
					const size_t *region, WAITS)
{
	COPY(SK_KIND_COPY, queue, pixels(from, region), false,
	     sk_cl_next.clEnqueueCopyImage(to, from, into, from_at, into_at, region, waits, wait,
					   taken));
}

static cl_int CL_API_CALL on_image_to_buffer(cl_command_queue queue, cl_mem from, cl_mem into,
					     const size_t *at, const size_t *region, size_t into_at,
					     WAITS)
{
	COPY(SK_KIND_COPY, queue, pixels(from, region), false,
	     sk_cl_next.clEnqueueCopyImageToBuffer(to, from, into, at, region, into_at, waits, wait,
						   taken));
}

static cl_int CL_API_CALL on_buffer_to_image(cl_command_queue queue, cl_mem from, cl_mem into,
					     size_t from_at, const size_t *at, const size_t *region,
					     WAITS)
{
	COPY(SK_KIND_COPY, queue, pixels(into, region), false,
	     sk_cl_next.clEnqueueCopyBufferToImage(to, from, into, from_at, at, region, waits, wait,
						   taken));
}

static cl_int CL_API_CALL on_fill_image(cl_command_queue queue, cl_mem image, const void *color,
					const size_t *at, const size_t *region, WAITS)
{
	COPY(SK_KIND_FILL, queue, pixels(image, region), false,
	     sk_cl_next.clEnqueueFillImage(to, image, color, at, region, waits, wait, taken));
}

static cl_int CL_API_CALL on_unmap(cl_command_queue queue, cl_mem object, void *mapped, WAITS)
{
	COPY(SK_KIND_UNMAP, queue, 0, false,
	     sk_cl_next.clEnqueueUnmapMemObject(to, object, mapped, waits, wait, taken));
}

static cl_int CL_API_CALL on_migrate(cl_command_queue queue, cl_uint count, const cl_mem *objects,
				     cl_mem_migration_flags flags, WAITS)
{
	COPY(SK_KIND_MIGRATE, queue, whole(count, objects), false,
	     sk_cl_next.clEnqueueMigrateMemObjects(to, count, objects, flags, waits, wait, taken));
}

static cl_int CL_API_CALL on_svm_copy(cl_command_queue queue, cl_bool blocking, void *into,
				      const void *from, size_t bytes, WAITS)
{
	COPY(SK_KIND_SVM_COPY, queue, bytes, blocking,
	     sk_cl_next.clEnqueueSVMMemcpy(to, blocking, into, from, bytes, waits, wait, taken));
}

static cl_int CL_API_CALL on_svm_fill(cl_command_queue queue, void *into, const void *pattern,
				      size_t pattern_bytes, size_t bytes, WAITS)
{
	COPY(SK_KIND_SVM_FILL, queue, bytes, false,
	     sk_cl_next.clEnqueueSVMMemFill(to, into, pattern, pattern_bytes, bytes, waits, wait,
					    taken));
}

static cl_int CL_API_CALL on_svm_map(cl_command_queue queue, cl_bool blocking, cl_map_flags flags,
				     void *at, size_t bytes, WAITS)
{
	COPY(SK_KIND_SVM_MAP, queue, bytes, blocking,
	     sk_cl_next.clEnqueueSVMMap(to, blocking, flags, at, bytes, waits, wait, taken));
}

static cl_int CL_API_CALL on_svm_unmap(cl_command_queue queue, void *at, WAITS)
{
	COPY(SK_KIND_SVM_UNMAP, queue, 0, false,
	     sk_cl_next.clEnqueueSVMUnmap(to, at, waits, wait, taken));
}

static cl_int CL_API_CALL on_svm_migrate(cl_command_queue queue, cl_uint count, const void **list,
					 const size_t *sizes, cl_mem_migration_flags flags, WAITS)
{
	COPY(SK_KIND_SVM_MIGRATE, queue, sum_of(count, sizes), false,
	     sk_cl_next.clEnqueueSVMMigrateMem(to, count, list, sizes, flags, waits, wait, taken));
}

static void *CL_API_CALL on_map(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
				cl_map_flags flags, size_t offset, size_t bytes, WAITS,
				cl_int *error_ret)
{
	MAP(SK_KIND_MAP, queue, bytes, blocking,
	    sk_cl_next.clEnqueueMapBuffer(to, buffer, blocking, flags, offset, bytes, waits, wait,
					  taken, &error));
}

static void *CL_API_CALL on_map_image(cl_command_queue queue, cl_mem image, cl_bool blocking,
				      cl_map_flags flags, const size_t *at, const size_t *region,
				      size_t *row, size_t *slice, WAITS, cl_int *error_ret)
{
	MAP(SK_KIND_MAP, queue, pixels(image, region), blocking,
	    sk_cl_next.clEnqueueMapImage(to, image, blocking, flags, at, region, row, slice, waits,
					 wait, taken, &error));
}

void sk_cl_copies_hook(struct _cl_icd_dispatch *table)
{
	SK_CL_HOOK(table, clEnqueueReadBuffer, on_read);
	SK_CL_HOOK(table, clEnqueueReadBufferRect, on_read_rect);
	SK_CL_HOOK(table, clEnqueueWriteBuffer, on_write);
	SK_CL_HOOK(table, clEnqueueWriteBufferRect, on_write_rect);
	SK_CL_HOOK(table, clEnqueueCopyBuffer, on_copy);
	SK_CL_HOOK(table, clEnqueueCopyBufferRect, on_copy_rect);
	SK_CL_HOOK(table, clEnqueueFillBuffer, on_fill);
	SK_CL_HOOK(table, clEnqueueReadImage, on_read_image);
	SK_CL_HOOK(table, clEnqueueWriteImage, on_write_image);
	SK_CL_HOOK(table, clEnqueueCopyImage, on_copy_image);
	SK_CL_HOOK(table, clEnqueueCopyImageToBuffer, on_image_to_buffer);
	SK_CL_HOOK(table, clEnqueueCopyBufferToImage, on_buffer_to_image);
	SK_CL_HOOK(table, clEnqueueFillImage, on_fill_image);
	SK_CL_HOOK(table, clEnqueueMapBuffer, on_map);
	SK_CL_HOOK(table, clEnqueueMapImage, on_map_image);
	SK_CL_HOOK(table, clEnqueueUnmapMemObject, on_unmap);
	SK_CL_HOOK(table, clEnqueueMigrateMemObjects, on_migrate);
	SK_CL_HOOK(table, clEnqueueSVMMemcpy, on_svm_copy);
	SK_CL_HOOK(table, clEnqueueSVMMemFill, on_svm_fill);
	SK_CL_HOOK(table, clEnqueueSVMMap, on_svm_map);
	SK_CL_HOOK(table, clEnqueueSVMUnmap, on_svm_unmap);
	SK_CL_HOOK(table, clEnqueueSVMMigrateMem, on_svm_migrate);
}
