/* cuda_dev.h - what the CUDA operations share: the open device, its sticky
 * error, and scratch.  Only files of the CUDA module include it. */
#ifndef TRAINER_CUDA_DEV_H
#define TRAINER_CUDA_DEV_H

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trainer/ops_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct linear_cache;  /* linear_cuda.c */
struct attention;     /* attention_cuda.h */
struct grouped_table; /* gemm_grouped.h */

enum { N_UPLOADS = 8, UPLOAD_BYTES = 1 << 20 };

struct dev {
    int local;
    int sms;           /* multiprocessors */
    int capability;    /* 90 for sm_90 */
    int deterministic; /* MUSTER_DETERMINISTIC: only kernels that repeat bit for bit */
    cudaStream_t stream[N_STREAMS];
    cudaEvent_t event[N_EVENTS];
    struct linear_cache *linear;
    struct attention *attention;
    const struct grouped_table *grouped;
    int32_t *counters; /* [64] device, tile counters of the grouped products */
    char *scratch;
    size_t scratch_bytes;
    struct err sticky;
    char *upload; /* pinned, N_UPLOADS slots of UPLOAD_BYTES */
    cudaEvent_t uploaded[N_UPLOADS];
    unsigned uploads;
    char busid[32];
    char *text; /* describe(); owned */
};

/* Scratch is handed out from its start by each op anew; pieces are 256-byte
 * aligned.  NULL, and the sticky error, when it is too small. */
struct carve {
    struct dev *dev;
    const char *op;
    size_t used;
};
void *carve_take(struct carve *c, size_t bytes);

/* 1 as long as nothing failed. */
int dev_ok(const struct dev *d);
/* Record the first failure; later ones are dropped. */
void dev_fail(struct dev *d, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a CUDA status; `op` names what was being done. */
void dev_check(struct dev *d, cudaError_t status, const char *op);
/* After a kernel launch. */
void dev_launched(struct dev *d, const char *op);

static inline cudaStream_t dev_stream(const struct dev *d)
{
    return d->stream[STREAM_COMPUTE];
}

#ifdef __cplusplus
}
#endif
#endif
