// A stand-in for the CUDA driver (libcuda.so.1) whose one device is the CPU, for the tests of PyCUDA's code path.
//
// A module image is a shared object that cudalab.host made from the .cu: kernel k is its function cudalab_run_k.
// A device pointer is a host pointer. Streams are asynchronous, as on a GPU: each has a thread that works off a queue,
// so a forgotten synchronisation shows. environment.py compiles this file and adds a stub that returns
// CUDA_ERROR_NOT_SUPPORTED for every other function that cuda.h declares.
#define _GNU_SOURCE
#include <cuda.h>
#include <cudaProfiler.h>
#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) CUresult
#define OK CUDA_SUCCESS

char device_name[64] = "cudalab CPU stand-in";  // exported: tests give the device another name
static const char BUS_ID[] = "0000:00:00.0";
enum { MAX_THREADS = 1024, STATIC_SHARED = 48 << 10, OPTIN_SHARED = 227 << 10, L2_BYTES = 1 << 20 };

// ---- errors ---------------------------------------------------------------------------------------------------------

// One lock guards everything below that can change; `announce` is called whenever a task starts waiting or ends.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// What a thread waits for may have changed. glibc's condition variables lose a wake-up now and then (its bug 25847, mended
// in 2.41), so these two use a futex; both are called with `lock` held.
static unsigned changes;

static void announce(void) {
  __atomic_add_fetch(&changes, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &changes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void wait_for_change(void) {
  const unsigned seen = __atomic_load_n(&changes, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&lock);
  syscall(SYS_futex, &changes, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
  pthread_mutex_lock(&lock);
}


// A failed kernel poisons the context, as on a GPU: every later call reports it, until the process ends.
static CUresult failure = OK;
static char failure_text[512] = "unspecified launch failure";

typedef struct { CUresult code; const char *name, *text; } ErrorText;
static const ErrorText ERRORS[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "this image was not made by the CPU stand-in's nvcc (tests/fake_gpu/nvcc)"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks"},
    {CUDA_ERROR_INVALID_CLUSTER_SIZE, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", failure_text},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted in a capture"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier call ended the capture"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the stream is not in a state for this call"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "not supported by the CPU stand-in for libcuda"},
};

static const ErrorText *find_error(CUresult code) {
  for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
    if (ERRORS[i].code == code) return &ERRORS[i];
  return NULL;
}

API cuGetErrorName(CUresult code, const char **name) {
  const ErrorText *e = find_error(code);
  *name = e ? e->name : NULL;
  return e ? OK : CUDA_ERROR_INVALID_VALUE;
}

API cuGetErrorString(CUresult code, const char **text) {
  const ErrorText *e = find_error(code);
  *text = e ? e->text : "unrecognized error code";
  return e ? OK : CUDA_ERROR_INVALID_VALUE;
}

// ---- the device -----------------------------------------------------------------------------------------------------

static bool initialized;

// A quarter of the machine's: the host needs the rest for its own copies, and a program that fills the device has to
// get CUDA's error and not the kernel's out-of-memory killer.
static size_t total_memory(void) { return (size_t)sysconf(_SC_PHYS_PAGES) / 4 * (size_t)sysconf(_SC_PAGE_SIZE); }

API cuInit(unsigned flags) {
  initialized = true;
  return flags ? CUDA_ERROR_INVALID_VALUE : OK;
}

API cuDriverGetVersion(int *version) {
  *version = CUDA_VERSION;
  return OK;
}

API cuDeviceGetCount(int *count) {
  *count = 1;
  return initialized ? OK : CUDA_ERROR_NOT_INITIALIZED;
}

API cuDeviceGet(CUdevice *device, int ordinal) {
  *device = 0;
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return ordinal ? CUDA_ERROR_INVALID_DEVICE : OK;
}

API cuDeviceGetName(char *name, int size, CUdevice device) {
  snprintf(name, (size_t)size, "%s", device_name);
  return OK;
}

API cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  memcpy(uuid->bytes, "cudalab no GPU\0", sizeof uuid->bytes);
  return OK;
}

API cuDeviceGetPCIBusId(char *id, int size, CUdevice device) {
  snprintf(id, (size_t)size, "%s", BUS_ID);
  return OK;
}

API cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
  *device = 0;
  return strcmp(id, BUS_ID) ? CUDA_ERROR_INVALID_DEVICE : OK;
}

API cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  *bytes = total_memory();
  return OK;
}

API cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  *major = 9;
  *minor = 0;
  return OK;
}

API cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  *can = 0;
  return OK;
}

// The limits of compute capability 9.0; a value that a CPU does not have (clocks, bus width) is not zero, since
// programs divide by it. Everything else, such as ECC or a display watchdog, is 0.
API cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = get_nprocs(); break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = MAX_THREADS; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = INT32_MAX; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = UINT16_MAX; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = STATIC_SHARED; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = OPTIN_SHARED; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = 228 << 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = L2_BYTES; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1000000; break;  // kHz
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 8192; break;  // a bus that no CPU's cache outruns
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: *value = INT32_MAX; break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: *value = 512; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: *value = 1; break;
    default: *value = 0;
  }
  return OK;
}

// ---- contexts -------------------------------------------------------------------------------------------------------

// A context is a token: all of them share the one memory and the streams. Each host thread has its own stack of them,
// and calls that need a context fail without one, since forgetting it in a new thread is a common bug.
struct CUctx_st { int references; };
enum { STACK = 32 };
static struct CUctx_st primary;
static __thread CUcontext stack[STACK];
static __thread int depth;

static CUcontext current(void) { return depth ? stack[depth - 1] : NULL; }

// What a call that needs the device checks first. `lock` must not be held.
static CUresult usable(void) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return current() ? failure : CUDA_ERROR_INVALID_CONTEXT;
}
#define NEED_CONTEXT do { CUresult bad = usable(); if (bad) return bad; } while (0)

API cuCtxPushCurrent(CUcontext context) {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (depth == STACK) return CUDA_ERROR_OUT_OF_MEMORY;
  stack[depth++] = context;
  return OK;
}

API cuCtxPopCurrent(CUcontext *context) {
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = current();
  depth--;
  return OK;
}

API cuCtxGetCurrent(CUcontext *context) {
  *context = current();
  return initialized ? OK : CUDA_ERROR_NOT_INITIALIZED;
}

API cuCtxSetCurrent(CUcontext context) {
  if (depth) depth--;
  return context ? cuCtxPushCurrent(context) : OK;
}

static CUresult create_context(CUcontext *context) {
  *context = calloc(1, sizeof **context);
  (*context)->references = 1;
  return cuCtxPushCurrent(*context);
}

#if CUDA_VERSION >= 13000
API cuCtxCreate(CUcontext *context, CUctxCreateParams *params, unsigned flags, CUdevice device) {
  return device ? CUDA_ERROR_INVALID_DEVICE : create_context(context);
}
#else
API cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device) {
  return device ? CUDA_ERROR_INVALID_DEVICE : create_context(context);
}
#endif

API cuCtxDestroy(CUcontext context) {  // not freed: another thread's stack may still hold it
  if (!context || context == &primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (current() == context) depth--;
  return OK;
}

API cuCtxAttach(CUcontext *context, unsigned flags) {
  NEED_CONTEXT;
  *context = current();
  (*context)->references++;
  return OK;
}

API cuCtxDetach(CUcontext context) {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (current() == context) depth--;
  context->references--;
  return OK;
}

API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (device) return CUDA_ERROR_INVALID_DEVICE;
  __atomic_add_fetch(&primary.references, 1, __ATOMIC_SEQ_CST);
  *context = &primary;
  return OK;
}

API cuDevicePrimaryCtxRelease(CUdevice device) {
  if (primary.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  __atomic_sub_fetch(&primary.references, 1, __ATOMIC_SEQ_CST);
  return OK;
}

API cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  *flags = 0;
  *active = primary.references > 0;
  return OK;
}

API cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) { return OK; }

API cuCtxGetDevice(CUdevice *device) {
  NEED_CONTEXT;
  *device = 0;
  return OK;
}

API cuCtxGetApiVersion(CUcontext context, unsigned *version) {
  *version = CUDA_VERSION;
  return OK;
}

API cuCtxGetFlags(unsigned *flags) {
  NEED_CONTEXT;
  *flags = 0;
  return OK;
}

API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = *greatest = 0;
  return OK;
}

// Hints about caches, which a CPU looks after itself. How often one was given is for the tests.
unsigned l2_resets;
API cuCtxResetPersistingL2Cache(void) { NEED_CONTEXT; l2_resets++; return OK; }
API cuCtxSetCacheConfig(CUfunc_cache config) { NEED_CONTEXT; return OK; }
API cuCtxGetCacheConfig(CUfunc_cache *config) { *config = CU_FUNC_CACHE_PREFER_NONE; return OK; }
API cuCtxSetLimit(CUlimit limit, size_t value) { NEED_CONTEXT; return OK; }
API cuCtxGetLimit(size_t *value, CUlimit limit) { *value = 0; return OK; }
API cuProfilerStart(void) { return OK; }
API cuProfilerStop(void) { return OK; }

// ---- streams: one thread and one queue each -------------------------------------------------------------------------

typedef struct CUstream_st Stream;

typedef struct CUevent_st {
  Stream *stream;  // where it was last recorded, NULL: never
  unsigned long ticket;
  double ms;
  bool timed;
} Event;

typedef int (*Kernel)(unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, size_t, void **, int);

struct CUfunc_st {
  struct CUfunc_st *next;
  CUcontext context;
  Kernel run;
  const char *(*error)(void);
  void (*set_groups)(unsigned, unsigned, unsigned, int);
  void (*forget)(void);
  const unsigned *parameters;  // their number, then size and kind of each
  const unsigned *cluster;  // of its __cluster_dims__, or NULL
  bool large_clusters;
  int max_shared;
  size_t least_bytes, most_bytes;  // of the arguments in one buffer
};

typedef struct {  // rows and slices in bytes; a plain copy is one row
  char *dst;
  const char *src;
  size_t width, height, depth, dst_row, src_row, dst_slice, src_slice;
} Copy;

typedef struct {
  char *dst;
  size_t width, height, row;
  unsigned value, bytes;  // bytes of one element
} Fill;

typedef struct {
  CUfunction function;
  unsigned grid[3], block[3], shared;
  unsigned cluster[3];  // 0: none
  bool cooperative;
  void **args;  // ours to free
  bool packed;  // args is one buffer with the arguments one after the other
  bool again;   // a graph's: args stay for the next replay
} Launch;

typedef struct Task {
  struct Task *next;
  unsigned long ticket;  // tickets rise over all streams, so they also say which of two tasks was submitted first
  void (*run)(struct Task *);
  Stream *after;  // cuStreamWaitEvent: start when this stream has passed that ticket
  unsigned long after_ticket;
  union { Copy copy; Fill fill; Launch launch; Event *event; };
} Task;

struct CUstream_st {
  Stream *next;
  Task *head, *tail;  // the running task stays at the head until it is done
  unsigned flags;
  bool started, ended;
  CUgraph captured;  // what the stream's tasks go to, in place of the queue
  bool invalid;      // the capture
};

typedef struct CUgraphNode_st { struct CUgraphNode_st *next; Task task; } Node;
struct CUgraph_st { Node *first, **end; size_t count; };
struct CUgraphExec_st { Node *first; };
static void keep_node(CUgraph graph, Task task);

static Stream default_stream;  // also the head of the list of all streams
static unsigned long last_ticket;

static Stream *stream_of(CUstream handle) {  // CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are the small integers 1, 2
  return (uintptr_t)handle <= 2 ? &default_stream : handle;
}

static bool pending(const Stream *s, unsigned long ticket) { return s->head && s->head->ticket <= ticket; }

// CUDA's rule of the default stream: it waits for what was submitted before to each "blocking" stream, and they for it.
static bool follows(const Stream *s, const Stream *other) {
  if (s == other || ((s->flags | other->flags) & CU_STREAM_NON_BLOCKING)) return false;
  return s == &default_stream || other == &default_stream;
}

static bool ready(const Stream *s) {
  const Task *t = s->head;
  if (!t || (t->after && pending(t->after, t->after_ticket))) return false;
  for (const Stream *o = &default_stream; o; o = o->next)
    if (follows(s, o) && pending(o, t->ticket)) return false;
  return true;
}

static void finish_head(Stream *s) {
  Task *t = s->head;
  s->head = t->next;
  if (!s->head) s->tail = NULL;
  free(t);
  announce();
}

static void *work(void *stream) {
  Stream *s = stream;
  pthread_mutex_lock(&lock);
  while (s->head || !s->ended) {
    if (!ready(s)) {
      wait_for_change();
      continue;
    }
    bool dead = failure != OK;
    pthread_mutex_unlock(&lock);
    if (s->head->run && !dead) s->head->run(s->head);
    pthread_mutex_lock(&lock);
    finish_head(s);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void start_thread(Stream *s) {  // at first use, so that a program that only looks starts none
  pthread_t thread;
  s->started = true;
  pthread_create(&thread, NULL, work, s);
  pthread_detach(thread);
}

static unsigned long submit(CUstream handle, Task task) {
  Stream *s = stream_of(handle);
  if (s->captured) return keep_node(s->captured, task), 0;
  Task *t = malloc(sizeof *t);
  *t = task;
  t->next = NULL;
  pthread_mutex_lock(&lock);
  unsigned long ticket = t->ticket = ++last_ticket;
  if (s->tail) s->tail->next = t; else s->head = t;
  s->tail = t;
  if (!s->started) start_thread(s);
  announce();
  pthread_mutex_unlock(&lock);
  return ticket;
}

static CUresult wait_for(Stream *s, unsigned long ticket) {
  pthread_mutex_lock(&lock);
  while (pending(s, ticket)) wait_for_change();
  CUresult result = failure;
  pthread_mutex_unlock(&lock);
  return result;
}

static CUresult wait_for_all(bool blocking_only) {
  unsigned long ticket = last_ticket;
  for (Stream *s = &default_stream; s; s = s->next)
    if (!blocking_only || !(s->flags & CU_STREAM_NON_BLOCKING)) wait_for(s, ticket);
  return failure;
}

static CUresult submit_and_wait(CUstream handle, Task task) {
  return wait_for(stream_of(handle), submit(handle, task));
}

API cuCtxSynchronize(void) {
  NEED_CONTEXT;
  return wait_for_all(false);
}

API cuStreamCreate(CUstream *handle, unsigned flags) {
  NEED_CONTEXT;
  Stream *s = calloc(1, sizeof *s);
  s->flags = flags;
  pthread_mutex_lock(&lock);
  s->next = default_stream.next;
  default_stream.next = s;
  pthread_mutex_unlock(&lock);
  *handle = s;
  return OK;
}

API cuStreamCreateWithPriority(CUstream *handle, unsigned flags, int priority) { return cuStreamCreate(handle, flags); }

API cuStreamDestroy(CUstream handle) {  // its thread finishes the queue; the record stays, since events may name it
  pthread_mutex_lock(&lock);
  stream_of(handle)->ended = true;
  announce();
  pthread_mutex_unlock(&lock);
  return OK;
}

API cuStreamSynchronize(CUstream handle) {
  NEED_CONTEXT;
  Stream *s = stream_of(handle);
  if (s->captured) return s->invalid = true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return s == &default_stream ? wait_for_all(true) : wait_for(s, last_ticket);
}

API cuStreamQuery(CUstream handle) {
  NEED_CONTEXT;
  pthread_mutex_lock(&lock);
  CUresult result = stream_of(handle)->head ? CUDA_ERROR_NOT_READY : failure;
  pthread_mutex_unlock(&lock);
  return result;
}

API cuStreamGetFlags(CUstream handle, unsigned *flags) {
  *flags = stream_of(handle)->flags;
  return OK;
}

API cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  NEED_CONTEXT;
  if (event->stream) submit(handle, (Task){.after = event->stream, .after_ticket = event->ticket});
  return OK;
}

// ---- events ---------------------------------------------------------------------------------------------------------

API cuEventCreate(CUevent *event, unsigned flags) {
  NEED_CONTEXT;
  *event = calloc(1, sizeof **event);
  (*event)->timed = !(flags & CU_EVENT_DISABLE_TIMING);
  return OK;
}

static void take_time(Task *t) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  t->event->ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

API cuEventRecord(CUevent event, CUstream handle) {
  NEED_CONTEXT;
  event->ticket = submit(handle, (Task){.run = take_time, .event = event});
  event->stream = stream_of(handle);
  return OK;
}

API cuEventSynchronize(CUevent event) {
  NEED_CONTEXT;
  return event->stream ? wait_for(event->stream, event->ticket) : OK;
}

static bool event_pending(const Event *event) {
  pthread_mutex_lock(&lock);
  bool yes = event->stream && pending(event->stream, event->ticket);
  pthread_mutex_unlock(&lock);
  return yes;
}

API cuEventQuery(CUevent event) {
  NEED_CONTEXT;
  return event_pending(event) ? CUDA_ERROR_NOT_READY : failure;
}

API cuEventDestroy(CUevent event) {  // one that is still queued is leaked, since its task will write to it
  if (!event_pending(event)) free(event);
  return OK;
}

API cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
  NEED_CONTEXT;
  if (!start->timed || !end->timed || !start->stream || !end->stream) return CUDA_ERROR_INVALID_HANDLE;
  if (event_pending(start) || event_pending(end)) return CUDA_ERROR_NOT_READY;
  *ms = (float)(end->ms - start->ms);
  return OK;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static size_t used_bytes;  // of device memory

// Memory of the device and page-locked memory are ordinary memory, of which the extent is kept.
typedef struct Extent { struct Extent *next; const char *start; size_t bytes; } Extent;
static Extent *all_device, *all_pinned;

static bool is_in(Extent **list, const void *pointer) {
  const char *p = pointer;
  bool found = false;
  pthread_mutex_lock(&lock);
  for (const Extent *r = *list; r && !found; r = r->next) found = p >= r->start && p < r->start + r->bytes;
  pthread_mutex_unlock(&lock);
  return found;
}

static void keep(Extent **list, void *pointer, size_t bytes) {
  Extent *r = malloc(sizeof *r);
  *r = (Extent){NULL, pointer, bytes};
  pthread_mutex_lock(&lock);
  r->next = *list;
  *list = r;
  pthread_mutex_unlock(&lock);
}

static bool forget(Extent **list, const void *pointer) {
  pthread_mutex_lock(&lock);
  Extent **at = list;
  while (*at && (*at)->start != pointer) at = &(*at)->next;
  Extent *found = *at;
  if (found) *at = found->next;
  pthread_mutex_unlock(&lock);
  free(found);
  return found;
}

API cuMemAlloc(CUdeviceptr *pointer, size_t bytes) {
  NEED_CONTEXT;
  void *p = NULL;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > total_memory() - __atomic_load_n(&used_bytes, __ATOMIC_SEQ_CST)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (posix_memalign(&p, 256, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  __atomic_add_fetch(&used_bytes, malloc_usable_size(p), __ATOMIC_SEQ_CST);
  keep(&all_device, p, bytes);
  *pointer = (CUdeviceptr)p;
  return OK;
}

API cuMemFree(CUdeviceptr pointer) {  // waits for the device, as CUDA's does
  CUresult result = wait_for_all(false);
  __atomic_sub_fetch(&used_bytes, malloc_usable_size((void *)pointer), __ATOMIC_SEQ_CST);
  forget(&all_device, (void *)pointer);
  free((void *)pointer);
  return result;
}

API cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  const bool device = is_in(&all_device, (void *)pointer);
  if (attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE || !(device || is_in(&all_pinned, (void *)pointer))) return CUDA_ERROR_INVALID_VALUE;
  *(unsigned *)value = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  return OK;
}

API cuMemAllocPitch(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
  *pitch = (width + 511) / 512 * 512;
  return cuMemAlloc(pointer, *pitch * height);
}

API cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) { return cuMemAlloc(pointer, bytes); }

API cuMemGetInfo(size_t *free_bytes, size_t *total) {
  NEED_CONTEXT;
  *total = total_memory();
  *free_bytes = *total - __atomic_load_n(&used_bytes, __ATOMIC_SEQ_CST);
  return OK;
}

API cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  NEED_CONTEXT;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > total_memory() || posix_memalign(pointer, 4096, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  keep(&all_pinned, *pointer, bytes);
  return OK;
}

API cuMemAllocHost(void **pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

API cuMemFreeHost(void *pointer) {
  CUresult result = wait_for_all(false);
  if (!forget(&all_pinned, pointer)) return CUDA_ERROR_INVALID_VALUE;
  free(pointer);
  return result;
}

API cuMemHostRegister(void *pointer, size_t bytes, unsigned flags) {
  NEED_CONTEXT;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  keep(&all_pinned, pointer, bytes);
  return OK;
}

API cuMemHostUnregister(void *pointer) {
  CUresult result = wait_for_all(false);
  return forget(&all_pinned, pointer) ? result : CUDA_ERROR_INVALID_VALUE;
}

API cuMemHostGetDevicePointer(CUdeviceptr *device, void *pointer, unsigned flags) {
  *device = (CUdeviceptr)pointer;
  return is_in(&all_pinned, pointer) ? OK : CUDA_ERROR_INVALID_VALUE;
}

API cuMemHostGetFlags(unsigned *flags, void *pointer) {
  *flags = CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE;
  return is_in(&all_pinned, pointer) ? OK : CUDA_ERROR_INVALID_VALUE;
}

// ---- copies ---------------------------------------------------------------------------------------------------------

enum { STAGED_BYTES = 64 << 10 };  // by the driver's documentation of the synchronous copies

static void run_copy(Task *t) {
  const Copy *c = &t->copy;
  for (size_t z = 0; z < c->depth; z++)
    for (size_t y = 0; y < c->height; y++)
      memcpy(c->dst + z * c->dst_slice + y * c->dst_row, c->src + z * c->src_slice + y * c->src_row, c->width);
}

static Task line(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return (Task){.run = run_copy, .copy = {(char *)dst, (const char *)src, bytes, 1, 1, 0, 0, 0, 0}};
}

static CUresult copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  NEED_CONTEXT;
  return submit_and_wait(NULL, line(dst, src, bytes));
}

// CUDA may copy pageable host memory before it returns, so callers may reuse such memory at once; `host` is that side.
static CUresult copy_async(Task task, const void *host, CUstream stream) {
  NEED_CONTEXT;
  if (host && !is_in(&all_pinned, host)) return submit_and_wait(stream, task);
  submit(stream, task);
  return OK;
}

API cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n) { return copy(dst, src, n); }

// CUDA returns from a short copy of pageable memory when that is staged. It arrives later, and a non-blocking stream does
// not wait for it; so late that whoever reads it without waiting gets what was there before.
static void run_late_copy(Task *t) {
  usleep(500);
  run_copy(t);
  free((void *)t->copy.src);
}

API cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t n) {
  NEED_CONTEXT;
  if (n > STAGED_BYTES || is_in(&all_pinned, src)) return copy(dst, (CUdeviceptr)src, n);
  Task late = line(dst, (CUdeviceptr)memcpy(malloc(n), src, n), n);
  late.run = run_late_copy;
  submit(NULL, late);
  return OK;
}

API cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t n) { return copy((CUdeviceptr)dst, src, n); }
API cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t n) { return copy_async(line(dst, src, n), NULL, NULL); }

API cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream) {
  return copy_async(line(dst, src, n), NULL, stream);
}

API cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t n, CUstream stream) {
  return copy_async(line(dst, (CUdeviceptr)src, n), src, stream);
}

API cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t n, CUstream stream) {
  return copy_async(line((CUdeviceptr)dst, src, n), dst, stream);
}

API cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream) {
  return copy_async(line(dst, src, n), NULL, stream);
}

static Task box(const CUDA_MEMCPY3D *c) {
  const char *src = c->srcMemoryType == CU_MEMORYTYPE_HOST ? c->srcHost : (const char *)c->srcDevice;
  char *dst = c->dstMemoryType == CU_MEMORYTYPE_HOST ? c->dstHost : (char *)c->dstDevice;
  size_t src_slice = c->srcPitch * c->srcHeight, dst_slice = c->dstPitch * c->dstHeight;
  src += c->srcZ * src_slice + c->srcY * c->srcPitch + c->srcXInBytes;
  dst += c->dstZ * dst_slice + c->dstY * c->dstPitch + c->dstXInBytes;
  Copy copy = {dst, src, c->WidthInBytes, c->Height, c->Depth, c->dstPitch, c->srcPitch, dst_slice, src_slice};
  return (Task){.run = run_copy, .copy = copy};
}

static bool has_array(const CUDA_MEMCPY3D *c) {  // textures' opaque memory, which this device does not have
  return c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY;
}

API cuMemcpy3D(const CUDA_MEMCPY3D *c) {
  NEED_CONTEXT;
  return has_array(c) ? CUDA_ERROR_NOT_SUPPORTED : submit_and_wait(NULL, box(c));
}

API cuMemcpy3DAsync(const CUDA_MEMCPY3D *c, CUstream stream) {
  if (has_array(c)) return CUDA_ERROR_NOT_SUPPORTED;
  if (c->srcMemoryType == CU_MEMORYTYPE_HOST && !is_in(&all_pinned, c->srcHost)) return copy_async(box(c), c->srcHost, stream);
  return copy_async(box(c), c->dstMemoryType == CU_MEMORYTYPE_HOST ? c->dstHost : NULL, stream);
}

static CUDA_MEMCPY3D with_depth(const CUDA_MEMCPY2D *c) {
  return (CUDA_MEMCPY3D){
      .srcXInBytes = c->srcXInBytes, .srcY = c->srcY, .srcMemoryType = c->srcMemoryType, .srcHost = c->srcHost,
      .srcDevice = c->srcDevice, .srcArray = c->srcArray, .srcPitch = c->srcPitch, .dstXInBytes = c->dstXInBytes,
      .dstY = c->dstY, .dstMemoryType = c->dstMemoryType, .dstHost = c->dstHost, .dstDevice = c->dstDevice,
      .dstArray = c->dstArray, .dstPitch = c->dstPitch, .WidthInBytes = c->WidthInBytes, .Height = c->Height,
      .Depth = 1};
}

API cuMemcpy2D(const CUDA_MEMCPY2D *c) {
  CUDA_MEMCPY3D deep = with_depth(c);
  return cuMemcpy3D(&deep);
}

API cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *c) { return cuMemcpy2D(c); }

API cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream stream) {
  CUDA_MEMCPY3D deep = with_depth(c);
  return cuMemcpy3DAsync(&deep, stream);
}

// ---- fills ----------------------------------------------------------------------------------------------------------

static void run_fill(Task *t) {
  const Fill *f = &t->fill;
  for (size_t y = 0; y < f->height; y++) {
    char *row = f->dst + y * f->row;
    size_t whole = f->width * f->bytes, done = whole < f->bytes ? whole : f->bytes;
    memcpy(row, &f->value, done);  // little-endian
    for (; done < whole; done *= 2) memcpy(row + done, row, done < whole - done ? done : whole - done);
  }
}

static CUresult fill(CUdeviceptr d, unsigned value, unsigned bytes, size_t row, size_t width, size_t height,
                     CUstream s) {
  NEED_CONTEXT;
  if (d % bytes) return CUDA_ERROR_INVALID_VALUE;
  submit(s, (Task){.run = run_fill, .fill = {(char *)d, width, height, row, value, bytes}});
  return OK;
}

API cuMemsetD8(CUdeviceptr d, unsigned char v, size_t n) { return fill(d, v, 1, 0, n, 1, NULL); }
API cuMemsetD16(CUdeviceptr d, unsigned short v, size_t n) { return fill(d, v, 2, 0, n, 1, NULL); }
API cuMemsetD32(CUdeviceptr d, unsigned v, size_t n) { return fill(d, v, 4, 0, n, 1, NULL); }
API cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream s) { return fill(d, v, 1, 0, n, 1, s); }
API cuMemsetD16Async(CUdeviceptr d, unsigned short v, size_t n, CUstream s) { return fill(d, v, 2, 0, n, 1, s); }
API cuMemsetD32Async(CUdeviceptr d, unsigned v, size_t n, CUstream s) { return fill(d, v, 4, 0, n, 1, s); }

API cuMemsetD2D8(CUdeviceptr d, size_t pitch, unsigned char v, size_t width, size_t height) {
  return fill(d, v, 1, pitch, width, height, NULL);
}

API cuMemsetD2D16(CUdeviceptr d, size_t pitch, unsigned short v, size_t width, size_t height) {
  return fill(d, v, 2, pitch, width, height, NULL);
}

API cuMemsetD2D32(CUdeviceptr d, size_t pitch, unsigned v, size_t width, size_t height) {
  return fill(d, v, 4, pitch, width, height, NULL);
}

// ---- modules and functions ------------------------------------------------------------------------------------------

struct CUmod_st {
  CUcontext context;
  void *library;
  CUfunction functions;
};

#if defined(__x86_64__)
enum { HOST_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { HOST_MACHINE = EM_AARCH64 };
#endif

static bool is_host_image(const Elf64_Ehdr *image) {  // a real cubin is ELF too, for machine EM_CUDA
  return !memcmp(image->e_ident, ELFMAG, SELFMAG) && image->e_machine == HOST_MACHINE;
}

// The driver is given no length: linkers put the table of section headers at the end.
static size_t image_bytes(const Elf64_Ehdr *image) {
  return image->e_shoff + (size_t)image->e_shnum * image->e_shentsize;
}

static bool write_all(int fd, const char *data, size_t n) {
  while (n) {
    ssize_t done = write(fd, data, n);
    if (done <= 0) return false;
    data += done;
    n -= (size_t)done;
  }
  return true;
}

// dlopen wants a file, and takes a path that it has seen before for the same library: the name has to be new each time.
static void *open_image(const void *image) {
  const char *folder = getenv("TMPDIR");
  char path[4096];
  snprintf(path, sizeof path, "%s/cudalab-module-XXXXXX", folder ? folder : P_tmpdir);
  int fd = mkstemp(path);
  if (fd < 0) return NULL;
  bool written = write_all(fd, image, image_bytes(image));
  close(fd);
  void *library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) fprintf(stderr, "cudalab stand-in: %s\n", written ? dlerror() : "cannot write the module to a file");
  unlink(path);
  return library;
}

API cuModuleLoadData(CUmodule *module, const void *image) {
  NEED_CONTEXT;
  if (!is_host_image(image)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  void *library = open_image(image);
  if (!library) return CUDA_ERROR_INVALID_IMAGE;
  *module = calloc(1, sizeof **module);
  (*module)->library = library;
  (*module)->context = current();
  return OK;
}

API cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, CUjit_option *options, void **values) {
  return cuModuleLoadData(module, image);
}

API cuModuleLoad(CUmodule *module, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  char *image = calloc(1, (size_t)size + sizeof(Elf64_Ehdr));
  bool complete = fread(image, 1, (size_t)size, file) == (size_t)size;
  fclose(file);
  CUresult result = complete ? cuModuleLoadData(module, image) : CUDA_ERROR_INVALID_IMAGE;
  free(image);
  return result;
}

API cuModuleUnload(CUmodule module) {  // no dlclose: threads that ran its kernels may still hold its thread-locals
  CUresult result = wait_for_all(false);
  for (CUfunction f = module->functions, next; f; f = next) {
    next = f->next;
    free(f);
  }
  free(module);
  return result;
}

// The size of a kernel's arguments in one buffer, from the table that cudalab.host exports: their number, then size and
// kind of each. Of a struct the alignment is not known, hence two bounds.
static size_t buffer_bytes(const unsigned *table, size_t struct_alignment) {
  size_t bytes = 0;
  for (unsigned i = 0; i < table[0]; i++) {
    size_t size = table[1 + 2 * i], alignment = table[2 + 2 * i] ? size : struct_alignment;
    bytes = (bytes + alignment - 1) / alignment * alignment + size;
  }
  return bytes;
}

static void *symbol_of(CUmodule module, const char *prefix, const char *name) {
  char symbol[1024];
  snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
  return dlsym(module->library, symbol);
}

API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  NEED_CONTEXT;
  Kernel run = (Kernel)symbol_of(module, "cudalab_run_", name);
  const unsigned *(*table)(void) = (const unsigned *(*)(void))symbol_of(module, "cudalab_parameters_", name);
  if (!run || !table) return CUDA_ERROR_NOT_FOUND;
  CUfunction f = calloc(1, sizeof *f);
  f->parameters = table();
  f->least_bytes = buffer_bytes(f->parameters, 1);
  f->most_bytes = buffer_bytes(f->parameters, 16);
  f->run = run;
  f->error = (const char *(*)(void))dlsym(module->library, "cudalab_error");
  f->set_groups = (void (*)(unsigned, unsigned, unsigned, int))dlsym(module->library, "cudalab_set_groups");
  f->forget = (void (*)(void))dlsym(module->library, "cudalab_forget");
  const unsigned *(*cluster)(void) = (const unsigned *(*)(void))symbol_of(module, "cudalab_cluster_", name);
  f->cluster = cluster ? cluster() : NULL;
  f->max_shared = STATIC_SHARED;
  f->context = module->context;
  f->next = module->functions;
  *function = module->functions = f;
  return OK;
}

API cuModuleGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name) {
  NEED_CONTEXT;
  Dl_info info;
  const Elf64_Sym *symbol = NULL;
  void *p = dlsym(module->library, name);
  if (!p) return CUDA_ERROR_NOT_FOUND;
  dladdr1(p, &info, (void **)&symbol, RTLD_DL_SYMENT);
  if (pointer) *pointer = (CUdeviceptr)p;
  if (bytes) *bytes = symbol ? symbol->st_size : 0;
  return OK;
}

// Registers and local memory are not known here: 0. (A real compiler never reports 0 registers.)
int local_bytes;
API cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = MAX_THREADS; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function->max_shared; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = local_bytes; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = 90; break;
    default: *value = 0;
  }
  return OK;
}

API cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) function->large_clusters = value != 0;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return OK;
  if (value < 0 || value > OPTIN_SHARED) return CUDA_ERROR_INVALID_VALUE;
  function->max_shared = value;
  return OK;
}

API cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) { return OK; }
API cuFuncSetBlockShape(CUfunction function, int x, int y, int z) { return OK; }  // PyCUDA passes it to the launch too

// ---- launches -------------------------------------------------------------------------------------------------------

static void keep_failure(CUfunction function) {
  const char *text = function->error ? function->error() : NULL;
  pthread_mutex_lock(&lock);
  if (failure == OK && text && *text) snprintf(failure_text, sizeof failure_text, "kernel failed: %s", text);
  failure = CUDA_ERROR_LAUNCH_FAILED;
  pthread_mutex_unlock(&lock);
}

// A module keeps stacks for its next launch, up to 8192 mappings, and a process may have 65530: the modules that launched
// last keep theirs, since to map them takes longer than most kernels run.
enum { KEEPING = 3 };

static void free_stacks_before(CUfunction function) {
  static void (*keeping[KEEPING])(void);  // the last one first
  void (*next)(void) = function->forget, (*moved)(void) = next;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < KEEPING && moved; i++) {
    void (*here)(void) = keeping[i];
    keeping[i] = moved;
    moved = here == next ? NULL : here;
  }
  pthread_mutex_unlock(&lock);
  if (moved) moved();
}

static void run_launch(Task *t) {
  const Launch *l = &t->launch;
  free_stacks_before(l->function);
  const unsigned none[3] = {1, 1, 1}, *c = l->cluster[0] ? l->cluster : l->function->cluster ? l->function->cluster : none;
  if (l->function->set_groups) l->function->set_groups(c[0], c[1] ? c[1] : 1, c[2] ? c[2] : 1, l->cooperative);
  int workers = l->packed ? -get_nprocs() : get_nprocs();  // negative: one packed buffer, see cudalab.host
  if (l->function->run(l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared, l->args,
                       workers))
    keep_failure(l->function);
  if (!l->again) free(l->args);
}

static bool fits(const Launch *l) {
  const unsigned *g = l->grid, *b = l->block;
  if (!g[0] || !g[1] || !g[2] || !b[0] || !b[1] || !b[2]) return false;
  if (g[0] > INT32_MAX || g[1] > UINT16_MAX || g[2] > UINT16_MAX) return false;
  if (b[0] > MAX_THREADS || b[1] > MAX_THREADS || b[2] > 64 || b[0] * b[1] * b[2] > MAX_THREADS) return false;
  return l->shared <= (unsigned)l->function->max_shared;
}

// The two extras that CUDA knows: the arguments in one buffer, and its size. The queue gets a copy of its own.
// NULL: the size does not fit the kernel's parameters.
static void **copy_buffer(CUfunction function, void **extra) {
  const void *buffer = NULL;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *(const size_t *)extra[1];
  }
  if (bytes < function->least_bytes || bytes > function->most_bytes) return NULL;
  return memcpy(malloc(bytes + 1), bytes ? buffer : "", bytes);
}

// The arguments that the caller's pointers point at, which are the caller's own again when the launch returns.
static void **copy_arguments(CUfunction function, void **args) {
  const unsigned *table = function->parameters, n = table[0];
  size_t bytes = n * sizeof(void *);
  for (unsigned i = 0; i < n; i++) bytes += (table[1 + 2 * i] + 15u) / 16 * 16 + 16;
  void **copies = malloc(bytes + 1);
  char *at = (char *)(copies + n);
  for (unsigned i = 0; i < n; i++) {
    at = (char *)(((uintptr_t)at + 15) / 16 * 16);
    copies[i] = memcpy(at, args[i], table[1 + 2 * i]);
    at += table[1 + 2 * i];
  }
  return copies;
}

// Registers are not known: a multiprocessor has room for the threads and the shared memory alone.
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
  NEED_CONTEXT;
  if (threads < 1 || threads > MAX_THREADS) return CUDA_ERROR_INVALID_VALUE;
  const int by_threads = 2048 / threads, by_shared = (int)((228 << 10) / (shared + 1024));
  *blocks = by_threads < by_shared ? by_threads : by_shared;
  if (*blocks > 32) *blocks = 32;
  return OK;
}

static CUresult launch(Launch l, CUstream stream, void **args, void **extra) {
  NEED_CONTEXT;
  CUfunction function = l.function;
  if (!stream && function->context != current()) return CUDA_ERROR_INVALID_HANDLE;  // as an H200's driver does
  const unsigned *c = l.cluster, blocks = c[0] * c[1] * c[2];
  if (c[0] && (l.grid[0] % c[0] || l.grid[1] % c[1] || l.grid[2] % c[2])) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (blocks > 16 || (blocks > 8 && !function->large_clusters)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  int room = 0;
  cuOccupancyMaxActiveBlocksPerMultiprocessor(&room, function, (int)(l.block[0] * l.block[1] * l.block[2]), l.shared);
  if (l.cooperative && (size_t)l.grid[0] * l.grid[1] * l.grid[2] > (size_t)room * get_nprocs())
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  if (!fits(&l) || (args && extra)) return CUDA_ERROR_INVALID_VALUE;
  if (!extra && !args && function->parameters[0]) return CUDA_ERROR_INVALID_VALUE;
  l.args = extra ? copy_buffer(function, extra) : copy_arguments(function, args);
  if (!l.args) return CUDA_ERROR_INVALID_VALUE;
  submit(stream, (Task){.run = run_launch, .launch = l});
  return OK;
}

API cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, CUstream stream, void **args, void **extra) {
  Launch l = {.function = function, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared, .packed = extra};
  return launch(l, stream, args, extra);
}

API cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **args, void **extra) {
  Launch l = {.function = function, .grid = {c->gridDimX, c->gridDimY, c->gridDimZ}, .shared = c->sharedMemBytes,
              .block = {c->blockDimX, c->blockDimY, c->blockDimZ}, .packed = extra};
  for (unsigned i = 0; i < c->numAttrs; i++) {
    const CUlaunchAttribute *a = c->attrs + i;
    if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) l.cooperative = a->value.cooperative != 0;
    else if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) memcpy(l.cluster, &a->value.clusterDim, sizeof l.cluster);
    else return CUDA_ERROR_NOT_SUPPORTED;
  }
  return launch(l, c->hStream, args, extra);
}

// ---- graphs: the tasks of one stream, in order. They are never freed: a replay may still be queued ---------------------

static void keep_node(CUgraph graph, Task task) {
  Node *n = calloc(1, sizeof *n);
  n->task = task;
  if (task.run == run_launch) n->task.launch.again = true;
  *graph->end = n;
  graph->end = &n->next;
  graph->count++;
}

API cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  NEED_CONTEXT;
  Stream *s = stream_of(handle);
  if (s == &default_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (s->captured) return CUDA_ERROR_ILLEGAL_STATE;
  CUgraph graph = calloc(1, sizeof *graph);
  graph->end = &graph->first;
  s->invalid = false;
  s->captured = graph;
  return OK;
}

API cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  NEED_CONTEXT;
  Stream *s = stream_of(handle);
  *graph = NULL;
  if (!s->captured) return CUDA_ERROR_ILLEGAL_STATE;
  if (!s->invalid) *graph = s->captured;
  s->captured = NULL;
  return s->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : OK;
}

API cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  if (!nodes) return *count = graph->count, OK;
  size_t i = 0;
  for (Node *n = graph->first; n && i < *count; n = n->next) nodes[i++] = n;
  *count = i;
  return OK;
}

API cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  void (*run)(Task *) = node->task.run;
  *type = run == run_launch ? CU_GRAPH_NODE_TYPE_KERNEL
          : run == run_copy ? CU_GRAPH_NODE_TYPE_MEMCPY
          : run == run_fill ? CU_GRAPH_NODE_TYPE_MEMSET
                            : CU_GRAPH_NODE_TYPE_EMPTY;
  return OK;
}

API cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params) {
  if (node->task.run != run_launch) return CUDA_ERROR_INVALID_VALUE;
  const Launch *l = &node->task.launch;
  *params = (CUDA_KERNEL_NODE_PARAMS){.func = l->function, .gridDimX = l->grid[0], .gridDimY = l->grid[1],
                                      .gridDimZ = l->grid[2], .blockDimX = l->block[0], .blockDimY = l->block[1],
                                      .blockDimZ = l->block[2], .sharedMemBytes = l->shared};
  return OK;
}

API cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
  NEED_CONTEXT;
  if (flags) return CUDA_ERROR_NOT_SUPPORTED;
  *executable = malloc(sizeof **executable);
  (*executable)->first = graph->first;
  return OK;
}

API cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  NEED_CONTEXT;
  for (Node *n = executable->first; n; n = n->next) submit(stream, n->task);
  return OK;
}

API cuGraphExecDestroy(CUgraphExec executable) { free(executable); return OK; }
API cuGraphDestroy(CUgraph graph) { free(graph); return OK; }
