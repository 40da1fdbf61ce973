/* The device behind ops_cuda: streams, events, memory, errors, the table. */
#include "trainer/ops_cuda.h"

#include <cublasLt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trainer/attention_cuda.h"
#include "trainer/cuda_dev.h"
#include "trainer/gemm_grouped.h"

extern "C" {

/* NCCL's allocator, where NCCL is built in: memory that other GPUs of the node can
 * map, so that collectives move it without copies of their own. */
int ncclMemAlloc(void **p, size_t bytes);
int ncclMemFree(void *p);
#pragma weak ncclMemAlloc
#pragma weak ncclMemFree

/* --- errors and scratch ------------------------------------------------------- */

int dev_ok(const struct dev *d)
{
    return d->sticky.code == ERR_NONE;
}

void dev_fail(struct dev *d, enum err_code code, const char *fmt, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char *text;
    va_list ap;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&lock); /* the watcher of collectives fails devices too */
    if (dev_ok(d))
        err_record(&d->sticky, code, "GPU %d: %s", d->local, text);
    pthread_mutex_unlock(&lock);
    free(text);
}

void dev_check(struct dev *d, cudaError_t status, const char *op)
{
    if (status != cudaSuccess)
        dev_fail(d, ERR_SYSTEM, "%s: %s", op, cudaGetErrorString(status));
}

void dev_launched(struct dev *d, const char *op)
{
    dev_check(d, cudaGetLastError(), op);
}

void *carve_take(struct carve *c, size_t bytes)
{
    size_t at = c->used;

    c->used += carve_round(bytes);
    if (c->used <= c->dev->scratch_bytes)
        return c->dev->scratch + at;
    dev_fail(c->dev, ERR_USAGE,
             "%s needs %zu bytes of scratch or more and has %zu: give set_scratch() "
             "what scratch_bytes() says",
             c->op, c->used, c->dev->scratch_bytes);
    return NULL;
}

/* --- open and close -------------------------------------------------------------- */

static void describe_device(struct dev *d, const struct cudaDeviceProp *p)
{
    size_t lt = cublasLtGetVersion();

    d->text = xasprintf(
        "%s (sm_%d, %d SMs, %.1f GiB), cuBLASLt %zu.%zu.%zu, attention %s, experts "
        "%s%s",
        p->name, d->capability, d->sms, (double)p->totalGlobalMem / (1 << 30),
        lt / 10000, lt / 100 % 100, lt % 100, attention_describe(d->attention),
        d->grouped->name, d->deterministic ? ", deterministic" : "");
}

static int open_streams(struct dev *d, struct err *err)
{
    cudaError_t e = cudaSuccess;
    int low, high;

    cudaDeviceGetStreamPriorityRange(&low, &high);
    for (int i = 0; i < N_STREAMS && e == cudaSuccess; i++)
        e = cudaStreamCreateWithPriority(&d->stream[i], cudaStreamNonBlocking,
                                         i == STREAM_COMPUTE ? low : high);
    for (int i = 0; i < N_EVENTS && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&d->event[i], cudaEventDisableTiming);
    for (int i = 0; i < N_UPLOADS && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&d->uploaded[i], cudaEventDisableTiming);
    if (e == cudaSuccess)
        e = cudaMallocHost((void **)&d->upload, (size_t)N_UPLOADS * UPLOAD_BYTES);
    if (e == cudaSuccess)
        e = cudaDeviceGetPCIBusId(d->busid, sizeof(d->busid), d->local);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&d->counters, 64 * sizeof(int32_t));
    if (e == cudaSuccess)
        e = cudaMemset(d->counters, 0, 64 * sizeof(int32_t));
    if (e != cudaSuccess)
        return err_set(err, ERR_SYSTEM, "GPU %d: streams and events: %s", d->local,
                       cudaGetErrorString(e));
    return 0;
}

static int select_device(int local, struct cudaDeviceProp *p, struct err *err)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);

    if (e != cudaSuccess || n == 0)
        return err_set(err, ERR_MISSING,
                       "no CUDA device: %s; use cluster.device: cpu, or a host with an "
                       "NVIDIA GPU and its driver",
                       e == cudaSuccess ? "the driver reports none"
                                        : cudaGetErrorString(e));
    if (local < 0 || local >= n)
        return err_set(err, ERR_MISSING,
                       "GPU %d: this host shows %d; start at most one rank a GPU",
                       local, n);
    e = cudaSetDevice(local);
    if (e == cudaSuccess)
        e = cudaGetDeviceProperties(p, local);
    if (e != cudaSuccess)
        return err_set(err, ERR_SYSTEM, "GPU %d: %s", local, cudaGetErrorString(e));
    if (p->major < 8)
        return err_set(err, ERR_MISSING,
                       "GPU %d is %s (sm_%d%d): BF16 training needs sm_80 or newer",
                       local, p->name, p->major, p->minor);
    return 0;
}

static void cuda_close(struct dev *d)
{
    if (!d)
        return;
    cudaDeviceSynchronize();
    attention_close(d->attention);
    linear_close(d->linear);
    cudaFree(d->counters);
    cudaFreeHost(d->upload);
    for (int i = 0; i < N_UPLOADS; i++)
        if (d->uploaded[i])
            cudaEventDestroy(d->uploaded[i]);
    for (int i = 0; i < N_EVENTS; i++)
        if (d->event[i])
            cudaEventDestroy(d->event[i]);
    for (int i = 0; i < N_STREAMS; i++)
        if (d->stream[i])
            cudaStreamDestroy(d->stream[i]);
    err_release(&d->sticky);
    free(d->text);
    free(d);
}

static int cuda_open(struct dev **out, int local, int threads, struct err *err)
{
    const char *want = getenv("MUSTER_DETERMINISTIC");
    struct cudaDeviceProp p;
    struct dev *d;

    (void)threads;
    if (select_device(local, &p, err) < 0)
        return -1;
    d = (struct dev *)xcalloc(1, sizeof(*d));
    d->local = local;
    d->sms = p.multiProcessorCount;
    d->capability = 10 * p.major + p.minor;
    d->deterministic = want && strcmp(want, "0") != 0;
    d->grouped = grouped_select(d->capability);
    if (open_streams(d, err) < 0 || linear_open(&d->linear, p.name, local, err) < 0 ||
        attention_open(&d->attention, d->deterministic, err) < 0) {
        cuda_close(d);
        return -1;
    }
    describe_device(d, &p);
    *out = d;
    return 0;
}

/* --- memory, streams, events ------------------------------------------------------- */

static int cuda_alloc(struct dev *d, size_t bytes, void **out, struct err *err)
{
    size_t free_now = 0, total = 0;
    void *p = NULL;
    cudaError_t e = cudaSuccess;

    bytes = bytes ? bytes : 256;
    if (!ncclMemAlloc)
        e = cudaMalloc(&p, bytes);
    else if (ncclMemAlloc(&p, bytes) != 0)
        e = cudaErrorMemoryAllocation;
    if (e != cudaSuccess) {
        cudaGetLastError();
        cudaMemGetInfo(&free_now, &total);
        return err_set(err, ERR_FAILED,
                       "GPU %d: %zu bytes asked, %zu of %zu free: %s; lower "
                       "training.local_batch_size, use more checkpointing or a larger "
                       "shard degree",
                       d->local, bytes, free_now, total, cudaGetErrorString(e));
    }
    dev_check(d, cudaMemsetAsync(p, 0, bytes, dev_stream(d)), "zeroing the arena");
    dev_check(d, cudaStreamSynchronize(dev_stream(d)), "zeroing the arena");
    *out = p;
    return 0;
}

static void cuda_free(struct dev *d, void *p)
{
    if (!ncclMemFree)
        dev_check(d, cudaFree(p), "free");
    else if (ncclMemFree(p) != 0)
        dev_fail(d, ERR_SYSTEM, "free: NCCL does not know this memory");
}

static void cuda_set_scratch(struct dev *d, void *p, size_t bytes)
{
    d->scratch = (char *)p;
    d->scratch_bytes = bytes;
}

static void cuda_memory(struct dev *d, size_t *used, size_t *total)
{
    size_t free_now = 0;

    *used = *total = 0;
    dev_check(d, cudaMemGetInfo(&free_now, total), "memory");
    *used = *total - free_now;
}

static const char *cuda_busid(struct dev *d)
{
    return d->busid;
}

static const char *cuda_describe(struct dev *d)
{
    return d->text;
}

static int cuda_status(struct dev *d, struct err *err)
{
    dev_check(d, cudaPeekAtLastError(), "an earlier operation");
    if (dev_ok(d))
        return 0;
    return err_set(err, d->sticky.code, "%s", err_text(&d->sticky));
}

static int cuda_sync(struct dev *d, struct err *err)
{
    for (int i = 0; i < N_STREAMS; i++)
        dev_check(d, cudaStreamSynchronize(d->stream[i]), "waiting for the device");
    return cuda_status(d, err);
}

static void cuda_record(struct dev *d, int event, enum stream s)
{
    dev_check(d, cudaEventRecord(d->event[event], d->stream[s]), "recording an event");
}

static void cuda_wait(struct dev *d, enum stream s, int event)
{
    dev_check(d, cudaStreamWaitEvent(d->stream[s], d->event[event], 0),
              "waiting for an event");
}

/* Through pinned memory of our own: the copy is queued, the host does not wait, and
 * the caller's bytes are free at once. */
static void cuda_upload(struct dev *d, void *dst, const void *host, size_t bytes)
{
    const char *from = (const char *)host;
    char *to = (char *)dst;

    while (bytes > 0 && dev_ok(d)) {
        int i = d->uploads++ % N_UPLOADS;
        size_t n = bytes < UPLOAD_BYTES ? bytes : UPLOAD_BYTES;
        char *slot = d->upload + (size_t)i * UPLOAD_BYTES;

        dev_check(d, cudaEventSynchronize(d->uploaded[i]), "upload");
        memcpy(slot, from, n);
        dev_check(d,
                  cudaMemcpyAsync(to, slot, n, cudaMemcpyHostToDevice, dev_stream(d)),
                  "upload");
        dev_check(d, cudaEventRecord(d->uploaded[i], dev_stream(d)), "upload");
        from += n;
        to += n;
        bytes -= n;
    }
}

static void cuda_download(struct dev *d, void *host, const void *src, size_t bytes)
{
    dev_check(d,
              cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, dev_stream(d)),
              "download");
    dev_check(d, cudaStreamSynchronize(dev_stream(d)), "download");
}

static void cuda_zero(struct dev *d, void *dst, size_t bytes)
{
    dev_check(d, cudaMemsetAsync(dst, 0, bytes, dev_stream(d)), "zero");
}

static void cuda_copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
    dev_check(d,
              cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, dev_stream(d)),
              "copy");
}

static int cuda_pin(struct dev *d, size_t bytes, void **out, struct err *err)
{
    cudaError_t e = cudaMallocHost(out, bytes);

    if (e == cudaSuccess)
        return 0;
    return err_set(err, ERR_SYSTEM, "GPU %d: %zu bytes of pinned host memory: %s",
                   d->local, bytes, cudaGetErrorString(e));
}

static void cuda_unpin(struct dev *d, void *p)
{
    dev_check(d, cudaFreeHost(p), "unpin");
}

static void cuda_transfer(struct dev *d, void *dst, const void *src, size_t bytes)
{
    dev_check(d, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, dev_stream(d)),
              "transfer");
}

/* --- the table ------------------------------------------------------------------------ */

extern const struct ops ops_cuda;
__attribute__((visibility("default"))) const struct ops ops_cuda = {
    "cuda",
    sizeof(uint16_t),
    cuda_open,
    cuda_close,
    cuda_alloc,
    cuda_free,
    cuda_set_scratch,
    cuda_scratch_bytes,
    cuda_memory,
    cuda_describe,
    cuda_status,
    cuda_sync,
    cuda_record,
    cuda_wait,
    cuda_upload,
    cuda_download,
    cuda_zero,
    cuda_copy,
    cuda_add,
    cuda_add_f32,
    cuda_add_i32,
    cuda_scale_f32,
    cuda_from_f32,
    cuda_embed_fwd,
    cuda_embed_bwd,
    cuda_rmsnorm_fwd,
    cuda_rmsnorm_bwd,
    cuda_linear_fwd,
    cuda_linear_dgrad,
    cuda_linear_wgrad,
    cuda_qkrope_fwd,
    cuda_qkrope_bwd,
    cuda_attention_fwd,
    cuda_attention_bwd,
    cuda_router_fwd,
    cuda_router_bwd,
    cuda_route,
    cuda_route_bwd,
    cuda_experts_fwd,
    cuda_experts_bwd,
    cuda_swiglu_fwd,
    cuda_swiglu_bwd,
    cuda_cross_entropy,
    cuda_sum_f32,
    cuda_sumsq_f32,
    cuda_adamw,
    cuda_spread,
    cuda_busid,
    cuda_pin,
    cuda_unpin,
    cuda_transfer,
};

} /* extern "C" */
