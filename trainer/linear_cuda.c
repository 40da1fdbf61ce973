/* Dense products through cuBLASLt.
 *
 * A plan (layouts and the algorithm) is made once for each form, shape, alignment
 * and precision, from a stored table (MUSTER_GEMM_PLANS, linear_table.h) or else the
 * library's heuristic, and kept; a call is one look-up and one launch.  Never from timing,
 * unless MUSTER_GEMM_TUNE=N asks for it and the run is not deterministic: then the
 * heuristic's first N are timed at a shape's first call, with its own buffers.  A table
 * that was not there is written when the device is closed.  cuBLASLt is column-major: a
 * row-major matrix [rows, cols] is a column-major [cols, rows] with the same
 * leading dimension. */
#include <cublasLt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "trainer/cuda_dev.h"
#include "trainer/linear_table.h"
#include "trainer/ops_cuda.h"

enum { MAX_PLANS = 512, MAX_CHOICES = 16, TIMED_CALLS = 4 };

struct plan_key {
    int32_t form, T, N, K, stride;
    int32_t f32, accumulate, in_place, align;
};

struct plan {
    struct plan_key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
    int n_choices; /* of the cache's, still to be timed; 0: settled */
};

struct linear_cache {
    int tune; /* how many choices to time; below 2: none */
    cublasLtMatmulHeuristicResult_t choice[MAX_CHOICES]; /* of the newest plan */
    cublasLtHandle_t lt;
    char *path; /* of the stored table, or NULL; owned */
    char *machine;
    int writes; /* of the devices of one process or node, the first */
    struct linear_table stored;
    int n;
    struct plan plan[MAX_PLANS];
};

static void cache_free(struct linear_cache *c)
{
    linear_table_release(&c->stored);
    free(c->machine);
    free(c->path);
    free(c);
}

static int open_table(struct linear_cache *c, const char *gpu, struct err *err)
{
    const char *path = getenv("MUSTER_GEMM_PLANS");
    size_t v = cublasLtGetVersion();

    if (!path || !*path)
        return 0;
    c->path = xstrdup(path);
    c->machine =
        xasprintf("cuBLASLt %zu.%zu.%zu, %s", v / 10000, v / 100 % 100, v % 100, gpu);
    return linear_table_load(path, c->machine, &c->stored, err);
}

static int wanted_choices(void)
{
    const char *text = getenv("MUSTER_GEMM_TUNE"),
               *same = getenv("MUSTER_DETERMINISTIC");
    long n = text ? strtol(text, NULL, 10) : 0;

    if (same && strcmp(same, "0") != 0)
        return 1;
    return n < 1 ? 1 : n > MAX_CHOICES ? MAX_CHOICES : (int)n;
}

int linear_open(struct linear_cache **out, const char *gpu, int local, struct err *err)
{
    struct linear_cache *c = xcalloc(1, sizeof(*c));
    cublasStatus_t s;

    c->writes = local == 0;
    c->tune = wanted_choices();
    if (open_table(c, gpu, err)) {
        cache_free(c);
        return -1;
    }
    s = cublasLtCreate(&c->lt);

    if (s != CUBLAS_STATUS_SUCCESS) {
        cache_free(c);
        return err_set(err, ERR_SYSTEM, "cublasLtCreate: %s",
                       cublasLtGetStatusString(s));
    }
    *out = c;
    return 0;
}

static void plan_release(struct plan *p)
{
    if (p->out)
        cublasLtMatrixLayoutDestroy(p->out);
    if (p->b)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->a)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->desc)
        cublasLtMatmulDescDestroy(p->desc);
}

/* Only a table that was not there: one in use stays as it is. */
static void write_table(struct linear_cache *c)
{
    struct linear_table t = { 0 };
    struct err err = ERR_INIT;

    for (int i = 0; i < c->n; i++) {
        struct linear_plan p = { .workspace = c->plan[i].workspace };

        memcpy(p.key, &c->plan[i].key, sizeof(p.key));
        memcpy(p.algo, &c->plan[i].algo, sizeof(p.algo));
        linear_table_add(&t, &p);
    }
    if (linear_table_save(c->path, c->machine, &t, &err))
        log_warn("%s", err_text(&err));
    err_release(&err);
    linear_table_release(&t);
}

void linear_close(struct linear_cache *c)
{
    if (!c)
        return;
    if (c->path && c->writes && c->stored.n == 0 && c->n > 0)
        write_table(c);
    for (int i = 0; i < c->n; i++)
        plan_release(&c->plan[i]);
    cublasLtDestroy(c->lt);
    cache_free(c);
}

/* --- a plan -------------------------------------------------------------------- */

/* The column-major product behind a form: out[m,n] = op(a)[m,k] op(b)[k,n].
 * `swap`: cuBLASLt's a is the call's b. */
struct shape {
    int m, n, k;
    cublasOperation_t op_a, op_b;
    int a_rows, a_cols, a_ld, b_rows, b_cols, b_ld;
};

static struct shape plan_shape(const struct plan_key *k)
{
    int wide = k->stride ? k->stride : k->N;
    const struct shape forms[] = {
        /* out[T,N] = x[T,K] w[N,K]^T */
        [LINEAR_FWD] = { k->N, k->T, k->K, CUBLAS_OP_T, CUBLAS_OP_N, k->K, k->N, k->K,
                         k->K, k->T, k->K },
        /* dx[T,K] = dout[T,N] w[N,K] */
        [LINEAR_DGRAD] = { k->K, k->T, k->N, CUBLAS_OP_N, CUBLAS_OP_N, k->K, k->N, k->K,
                           k->N, k->T, k->N },
        /* dw[N,K] = dout[T,N]^T x[T,K] */
        [LINEAR_WGRAD] = { k->K, k->N, k->T, CUBLAS_OP_N, CUBLAS_OP_T, k->K, k->T, k->K,
                           k->N, k->T, wide },
    };

    return forms[k->form];
}

static cublasStatus_t choose(struct linear_cache *c, struct plan *p)
{
    size_t most = LINEAR_WORKSPACE;
    uint32_t align = (uint32_t)p->key.align;
    const cublasLtMatmulPreferenceAttributes_t which[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };
    cublasLtMatmulPreference_t pref;
    cublasStatus_t s = cublasLtMatmulPreferenceCreate(&pref);
    int found = 0;

    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &most, sizeof(most));
    for (int i = 0; i < 4; i++)
        cublasLtMatmulPreferenceSetAttribute(pref, which[i], &align, sizeof(align));
    s = cublasLtMatmulAlgoGetHeuristic(c->lt, p->desc, p->a, p->b, p->out, p->out, pref,
                                       c->tune, c->choice, &found);
    cublasLtMatmulPreferenceDestroy(pref);
    if (s == CUBLAS_STATUS_SUCCESS && found == 0)
        s = CUBLAS_STATUS_NOT_SUPPORTED;
    if (s == CUBLAS_STATUS_SUCCESS) {
        p->algo = c->choice[0].algo;
        p->workspace = c->choice[0].workspaceSize;
        p->n_choices = found > 1 ? found : 0;
    }
    return s;
}

_Static_assert(sizeof(struct plan_key) == LINEAR_KEY * sizeof(int32_t) &&
                   sizeof(cublasLtMatmulAlgo_t) == LINEAR_ALGO * sizeof(uint64_t),
               "linear_table.h holds the same words");

/* As stored, if this library still takes it. */
static int recall(struct linear_cache *c, struct plan *p)
{
    const struct linear_plan *stored =
        linear_table_find(&c->stored, (const int32_t *)&p->key);
    cublasLtMatmulHeuristicResult_t result;

    if (!stored || stored->workspace > LINEAR_WORKSPACE)
        return 0;
    memcpy(&p->algo, stored->algo, sizeof(p->algo));
    p->workspace = stored->workspace;
    return cublasLtMatmulAlgoCheck(c->lt, p->desc, p->a, p->b, p->out, p->out, &p->algo,
                                   &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= LINEAR_WORKSPACE;
}

static cublasStatus_t plan_make(struct linear_cache *c, struct plan *p)
{
    struct shape h = plan_shape(&p->key);
    cudaDataType_t out = p->key.f32 ? CUDA_R_32F : CUDA_R_16BF;
    cublasStatus_t s =
        cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);

    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA,
                                           &h.op_a, sizeof(h.op_a));
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB,
                                           &h.op_b, sizeof(h.op_b));
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutCreate(&p->a, CUDA_R_16BF, (uint64_t)h.a_rows,
                                       (uint64_t)h.a_cols, h.a_ld);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutCreate(&p->b, CUDA_R_16BF, (uint64_t)h.b_rows,
                                       (uint64_t)h.b_cols, h.b_ld);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutCreate(&p->out, out, (uint64_t)h.m, (uint64_t)h.n, h.m);
    if (s != CUBLAS_STATUS_SUCCESS || recall(c, p))
        return s;
    return choose(c, p);
}

static struct plan *plan_find(struct dev *d, const struct plan_key *key)
{
    struct linear_cache *c = d->linear;
    struct plan *p;
    cublasStatus_t s;

    for (int i = 0; i < c->n; i++)
        if (memcmp(&c->plan[i].key, key, sizeof(*key)) == 0)
            return &c->plan[i];
    if (c->n == MAX_PLANS) {
        dev_fail(d, ERR_FAILED, "more than %d shapes of dense products", MAX_PLANS);
        return NULL;
    }
    p = &c->plan[c->n];
    memset(p, 0, sizeof(*p));
    p->key = *key;
    s = plan_make(c, p);
    if (s != CUBLAS_STATUS_SUCCESS) {
        plan_release(p);
        dev_fail(d, ERR_SYSTEM, "cuBLASLt has no product for T=%d N=%d K=%d: %s",
                 key->T, key->N, key->K, cublasLtGetStatusString(s));
        return NULL;
    }
    c->n++;
    return p;
}

/* --- a call ---------------------------------------------------------------------- */

/* The largest power of two up to 256 that divides all four addresses. */
static int32_t alignment(const struct linear_call *c)
{
    uintptr_t bits =
        (uintptr_t)c->out | (uintptr_t)c->a | (uintptr_t)c->b | (uintptr_t)c->add | 256;

    return (int32_t)(bits & -bits);
}

static void clear(struct dev *d, const struct linear_call *c)
{
    if (c->form == LINEAR_WGRAD && !c->accumulate && c->N > 0 && c->K > 0)
        dev_check(d,
                  cudaMemsetAsync(c->out, 0, (size_t)c->N * c->K * sizeof(float),
                                  dev_stream(d)),
                  "linear_wgrad");
}

/* --- timed choice ------------------------------------------------------------------ */

/* One product with a choice of the cache's; a sum in place gets next to nothing added. */
static cublasStatus_t try_choice(struct dev *d, const struct linear_call *c,
                                 const struct plan *p, int i)
{
    const cublasLtMatmulHeuristicResult_t *r = &d->linear->choice[i];
    const float alpha = c->accumulate && p->key.in_place ? 1e-37F : 1,
                beta = c->accumulate ? 1 : 0;

    return cublasLtMatmul(d->linear->lt, p->desc, &alpha, c->b, p->a, c->a, p->b, &beta,
                          c->add ? c->add : c->out, p->out, c->out, p->out, &r->algo,
                          c->workspace, r->workspaceSize, dev_stream(d));
}

/* Milliseconds of one product, or -1 where the choice does not run. */
static float time_choice(struct dev *d, const struct linear_call *c,
                         const struct plan *p, int i, const cudaEvent_t *event)
{
    cublasStatus_t s = try_choice(d, c, p, i);
    float ms = -1;

    cudaEventRecord(event[0], dev_stream(d));
    for (int n = 0; n < TIMED_CALLS && s == CUBLAS_STATUS_SUCCESS; n++)
        s = try_choice(d, c, p, i);
    cudaEventRecord(event[1], dev_stream(d));
    if (s != CUBLAS_STATUS_SUCCESS || cudaEventSynchronize(event[1]) != cudaSuccess ||
        cudaEventElapsedTime(&ms, event[0], event[1]) != cudaSuccess)
        return -1;
    return ms / TIMED_CALLS;
}

/* The heuristic's own stays unless another is 2 % faster. */
static void settle(struct dev *d, const struct linear_call *c, struct plan *p)
{
    static const char *const forms[] = {
        [LINEAR_FWD] = "forward", [LINEAR_DGRAD] = "dgrad", [LINEAR_WGRAD] = "wgrad"
    };
    cudaEvent_t event[2] = { NULL, NULL };
    float first = -1, best = -1;
    int chosen = 0;

    for (int i = 0; i < 2; i++)
        dev_check(d, cudaEventCreate(&event[i]), "timing products");
    for (int i = 0; i < p->n_choices && dev_ok(d); i++) {
        float ms = time_choice(d, c, p, i, event);

        if (i == 0)
            first = best = ms;
        else if (ms > 0 && (best < 0 || ms < 0.98F * best)) {
            best = ms;
            chosen = i;
        }
    }
    for (int i = 0; i < 2; i++)
        if (event[i])
            cudaEventDestroy(event[i]);
    p->algo = d->linear->choice[chosen].algo;
    p->workspace = d->linear->choice[chosen].workspaceSize;
    if (d->linear->writes)
        log_info("product %s T=%d N=%d K=%d%s%s: choice %d of %d, %.3f ms, the first "
                 "%.3f",
                 forms[c->form], c->T, c->N, c->K, p->key.f32 ? ", FP32 out" : "",
                 c->accumulate ? ", adding" : "", chosen + 1, p->n_choices,
                 (double)best, (double)first);
    p->n_choices = 0;
}

void linear_run(struct dev *d, const struct linear_call *c)
{
    const float one = 1, beta = c->accumulate ? 1 : 0;
    const void *add = c->add ? c->add : c->out;
    struct plan_key key = { c->form,        c->T,
                            c->N,           c->K,
                            c->dout_stride, c->out_f32 || c->form == LINEAR_WGRAD,
                            c->accumulate,  add == c->out,
                            alignment(c) };
    /* in cuBLASLt's terms the weights, or x for WGRAD, come first */
    const void *a = c->b, *b = c->a;
    struct plan *p;
    cublasStatus_t s;

    if (!dev_ok(d))
        return;
    if (c->T == 0 || c->N == 0 || c->K == 0) {
        clear(d, c);
        return;
    }
    p = plan_find(d, &key);
    if (!p)
        return;
    if (p->n_choices)
        settle(d, c, p);
    s = cublasLtMatmul(d->linear->lt, p->desc, &one, a, p->a, b, p->b, &beta, add,
                       p->out, c->out, p->out, &p->algo, c->workspace, p->workspace,
                       dev_stream(d));
    if (s != CUBLAS_STATUS_SUCCESS)
        dev_fail(d, ERR_SYSTEM, "cuBLASLt product T=%d N=%d K=%d: %s", c->T, c->N, c->K,
                 cublasLtGetStatusString(s));
}

/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): the
 * signatures are ops.h's. */

void cuda_linear_fwd(struct dev *d, void *out, const void *x, const void *w,
                     const void *add, int T, int N, int K)
{
    struct carve c = { d, "linear_fwd", 0 };
    struct linear_call call = { .form = LINEAR_FWD,
                                .T = T,
                                .N = N,
                                .K = K,
                                .out = out,
                                .a = x,
                                .b = w,
                                .add = add,
                                .accumulate = add != NULL };

    call.workspace = carve_take(&c, LINEAR_WORKSPACE);
    linear_run(d, &call);
}

void cuda_linear_dgrad(struct dev *d, void *dx, const void *dout, const void *w,
                       int accumulate, int T, int N, int K)
{
    struct carve c = { d, "linear_dgrad", 0 };
    struct linear_call call = { .form = LINEAR_DGRAD,
                                .T = T,
                                .N = N,
                                .K = K,
                                .out = dx,
                                .a = dout,
                                .b = w,
                                .accumulate = accumulate != 0 };

    call.workspace = carve_take(&c, LINEAR_WORKSPACE);
    linear_run(d, &call);
}

void cuda_linear_wgrad(struct dev *d, float *dw, const void *dout, const void *x,
                       int accumulate, int T, int N, int K)
{
    struct carve c = { d, "linear_wgrad", 0 };
    struct linear_call call = { .form = LINEAR_WGRAD,
                                .T = T,
                                .N = N,
                                .K = K,
                                .out = dw,
                                .a = dout,
                                .b = x,
                                .accumulate = accumulate != 0 };

    call.workspace = carve_take(&c, LINEAR_WORKSPACE);
    linear_run(d, &call);
}

/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
