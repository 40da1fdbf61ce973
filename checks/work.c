#include "checks/work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/recipe.h"

enum {
    CUDA_TOKENS = 16384,
    CPU_TOKENS = 64,
    CPU_WIDTH = 256,
    CPU_EXPERTS = 4,
    CUBE = 8192,
    BITS_TOKENS = 2048, /* of the result that is read back and compared */
    NOISE = 1 << 18,
    PERIOD = NOISE - 64,  /* no row repeats another; addresses stay aligned */
    CPU_COPY = NOISE * 4, /* where inputs are staged */
    PIN_BYTES = 256 << 20,
    SLICES = 4096
};
#define CUDA_COPY ((int64_t)2 << 30)
static const double own_flops = 2e10; /* smaller products measure the launch */

/* --- faults ----------------------------------------------------------------------- */

int work_fault_of(const char *text, int rank, enum work_fault *out, struct err *err)
{
    static const char *const kinds[] = { "", "wrong ", "flaky ", "slow ", "stuck " };

    *out = WORK_SOUND;
    if (*text == '\0')
        return 0;
    for (size_t i = 1; i < ARRAY_LEN(kinds); i++) {
        size_t n = strlen(kinds[i]);
        char *end;
        long whom;

        if (strncmp(text, kinds[i], n) != 0)
            continue;
        whom = strtol(text + n, &end, 10);
        if (end == text + n || *end != '\0')
            continue;
        *out = whom == rank ? (enum work_fault)i : WORK_SOUND;
        return 0;
    }
    return err_set(
        err, ERR_USAGE,
        "debug.check_fault: '%s' is not 'wrong', 'flaky', 'slow' or 'stuck' and a rank",
        text);
}

/* --- shapes ------------------------------------------------------------------------ */

static int least(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

static void choose_shapes(struct device_work *w, const struct recipe *r)
{
    const struct model *m = &r->model;
    int cuda = str_eq(w->ops->name, "cuda");
    int64_t tokens = (int64_t)r->training.local_batch_size * r->training.seq_len;

    w->own = 1;
    w->T = least(tokens, cuda ? CUDA_TOKENS : CPU_TOKENS);
    w->D = m->hidden;
    w->N = (int)model_qkv_dim(m);
    w->E = m->experts;
    w->K = m->top_k;
    w->F = m->expert_ffn;
    w->copy_bytes = cuda ? CUDA_COPY : CPU_COPY;
    if (!cuda) {
        w->D = least(w->D, CPU_WIDTH);
        w->N = least(w->N, CPU_WIDTH);
        w->E = least(w->E, CPU_EXPERTS);
        w->K = least(w->K, w->E);
        w->F = least(w->F, CPU_WIDTH);
    } else if (work_dense_flops(w) < own_flops) {
        w->own = w->E = w->K = 0;
        w->T = w->D = w->N = CUBE;
    }
}

double work_dense_flops(const struct device_work *w)
{
    return 2.0 * w->T * w->N * w->D;
}

/* Three matrices of D x F for every routed row. */
double work_experts_flops(const struct device_work *w)
{
    return 6.0 * w->T * w->K * w->D * w->F;
}

int64_t work_transfer_bytes(void)
{
    return PIN_BYTES;
}

/* --- buffers ------------------------------------------------------------------------ */

struct piece {
    void **at;
    size_t bytes;
};

static size_t round_up(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static size_t carve(const struct piece *p, size_t n, char *base)
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        if (base)
            *p[i].at = base + used;
        used += round_up(p[i].bytes);
    }
    return used;
}

static int make_buffers(struct device_work *w, struct err *err)
{
    size_t el = w->ops->elem_bytes, T = (size_t)w->T, D = (size_t)w->D;
    size_t N = (size_t)w->N, E = (size_t)w->E, F = (size_t)w->F;
    size_t R = T * (size_t)w->K, i32 = sizeof(int32_t);
    const struct piece all[] = {
        { &w->x, T * D * el },
        { &w->w, N * D * el },
        { &w->out, T * N * el },
        { &w->y, E ? T * D * el : 0 },
        { &w->h, R * 2 * F * el },
        { &w->w13, E * 2 * F * D * el },
        { &w->w2, E * D * F * el },
        { (void **)&w->logits, T * E * sizeof(float) },
        { (void **)&w->route.expert, R * i32 },
        { (void **)&w->route.weight, R * sizeof(float) },
        { (void **)&w->route.count, E * i32 },
        { (void **)&w->route.offset, (E + 1) * i32 },
        { (void **)&w->route.token, R * i32 },
        { (void **)&w->route.row, R * i32 },
        { &w->from, (size_t)w->copy_bytes },
        { &w->to, (size_t)w->copy_bytes },
    };

    if (w->ops->alloc(w->dev, carve(all, ARRAY_LEN(all), NULL), &w->memory, err))
        return -1;
    carve(all, ARRAY_LEN(all), w->memory);
    return 0;
}

static int make_scratch(struct device_work *w, struct err *err)
{
    size_t bytes = w->ops->scratch_bytes(w->T, w->T, w->D, 1, 1, 8, w->E ? w->E : 1,
                                         w->K ? w->K : 1, w->F, 8, 8);

    if (w->ops->alloc(w->dev, bytes, &w->scratch, err))
        return -1;
    w->ops->set_scratch(w->dev, w->scratch, bytes);
    return 0;
}

/* Values between -1 and 1, divided so that products of any shape stay near 1. */
static void fill(struct device_work *w, void *to, int64_t n, double scale)
{
    float *host = xcalloc(NOISE, sizeof(*host)), *staged = w->to;
    uint32_t h = 12345;

    for (int i = 0; i < NOISE; i++) {
        h = h * 1664525u + 1013904223u;
        host[i] = (float)(((double)(h >> 8) / 8388608.0 - 1) * scale);
    }
    w->ops->upload(w->dev, staged, host, NOISE * sizeof(*host));
    for (int64_t at = 0; at < n; at += PERIOD) {
        int64_t left = n - at;

        w->ops->from_f32(w->dev, (char *)to + (size_t)at * w->ops->elem_bytes, staged,
                         left < PERIOD ? left : PERIOD);
    }
    free(host);
}

static void fill_route(struct device_work *w)
{
    int32_t *offset = xcalloc((size_t)w->E + 1, sizeof(*offset));
    int64_t R = (int64_t)w->T * w->K;

    for (int e = 0; e <= w->E; e++)
        offset[e] = (int32_t)(R * e / w->E);
    w->ops->upload(w->dev, w->route.offset, offset,
                   ((size_t)w->E + 1) * sizeof(*offset));
    w->ops->spread(w->dev, w->route.expert, w->route.offset, 1, 0, w->T, w->E, w->K);
    w->ops->route(w->dev, &w->route, w->logits, NULL, 1, 1, 1, w->T, w->E, w->K);
    free(offset);
}

int work_open(struct device_work *w, const struct recipe *r, const struct ops *ops,
              struct dev *dev, struct err *err)
{
    w->ops = ops;
    w->dev = dev;
    choose_shapes(w, r);
    if (make_buffers(w, err) || make_scratch(w, err) ||
        (ops->pin && ops->pin(dev, PIN_BYTES, &w->pinned, err)))
        return -1;
    if (w->pinned)
        memset(w->pinned, 1, PIN_BYTES);
    fill(w, w->x, (int64_t)w->T * w->D, 1);
    fill(w, w->w, (int64_t)w->N * w->D, 1 / sqrt(w->D));
    if (w->E > 0) {
        fill(w, w->w13, (int64_t)w->E * 2 * w->F * w->D, 1 / sqrt(w->D));
        fill(w, w->w2, (int64_t)w->E * w->D * w->F, 1 / sqrt(w->F));
        fill_route(w);
    }
    return ops->sync(dev, err);
}

void work_close(struct device_work *w)
{
    if (!w->ops)
        return;
    w->ops->set_scratch(w->dev, NULL, 0);
    if (w->pinned)
        w->ops->unpin(w->dev, w->pinned);
    if (w->scratch)
        w->ops->free(w->dev, w->scratch);
    if (w->memory)
        w->ops->free(w->dev, w->memory);
    memset(w, 0, sizeof(*w));
}

/* --- speed --------------------------------------------------------------------------- */

void work_dense(struct device_work *w)
{
    w->ops->linear_fwd(w->dev, w->out, w->x, w->w, NULL, w->T, w->N, w->D);
}

void work_experts(struct device_work *w)
{
    w->ops->experts_fwd(w->dev, w->y, w->h, w->x, NULL, w->w13, w->w2, &w->route, w->T,
                        w->D, w->E, w->K, w->F);
}

void work_copy(struct device_work *w)
{
    w->ops->copy(w->dev, w->to, w->from, (size_t)w->copy_bytes);
}

void work_transfer(struct device_work *w)
{
    void *to = w->up ? w->to : w->pinned, *from = w->up ? w->pinned : w->from;

    w->ops->transfer(w->dev, to, from, PIN_BYTES);
}

/* n steps and the wait for them, in seconds. */
static int slice(struct device_work *w, work_step step, int n, void (*midway)(void *),
                 void *arg, double *took, struct err *err)
{
    double begun = clock_s();

    for (int i = 0; i < n; i++)
        step(w);
    if (midway)
        midway(arg);
    if (w->ops->sync(w->dev, err))
        return -1;
    if (w->fault == WORK_SLOW)
        clock_nap_us((int64_t)(7e6 * (clock_s() - begun)));
    *took = clock_s() - begun;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int work_time(struct device_work *w, work_step step, int budget_ms,
              void (*midway)(void *), void *arg, double *seconds, struct err *err)
{
    int cuda = str_eq(w->ops->name, "cuda"), n = 0, per, looks = 0;
    double *all = xcalloc(SLICES, sizeof(*all)), begun, spent, once;
    int rc = -1;

    if (slice(w, step, 2, NULL, NULL, &once, err) ||
        slice(w, step, 1, NULL, NULL, &once, err))
        goto out;
    per = (int)fmax(1, fmin(1000, (cuda ? 0.02 : 0.001) / fmax(once, 1e-7)));
    begun = clock_s();
    for (spent = 0; n < SLICES && (n == 0 || spent * 1e3 < budget_ms);
         spent = clock_s() - begun) {
        /* four looks, the first when the load has lasted a while */
        int look = midway && spent * 1e3 > budget_ms * (0.4 + 0.15 * looks);

        if (slice(w, step, per, look ? midway : NULL, arg, &all[n], err))
            goto out;
        looks += look;
        n += !look;
    }
    qsort(all, (size_t)n, sizeof(*all), by_value);
    *seconds = all[cuda ? n / 2 : 0] / per;
    rc = 0;
out:
    free(all);
    return rc;
}

/* --- results --------------------------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t h, const char *p, size_t n)
{
    for (size_t at = 0; at < n; at += sizeof(uint64_t)) {
        size_t left = n - at;
        uint64_t word = 0;

        memcpy(&word, p + at, left < sizeof(word) ? left : sizeof(word));
        h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 32;
    }
    return h;
}

static uint64_t hash_of(struct device_work *w, char *host, const void *from,
                        size_t bytes, uint64_t h)
{
    w->ops->download(w->dev, host, from, bytes);
    return hash_bytes(h, host, bytes);
}

/* One round; `round` decides what a flaky device does. */
static uint64_t hash_round(struct device_work *w, char *host, int round)
{
    size_t T = (size_t)least(w->T, BITS_TOKENS), el = w->ops->elem_bytes;
    int wrong = w->fault == WORK_WRONG || (w->fault == WORK_FLAKY && round % 2);
    uint64_t h = 0;

    while (w->fault == WORK_STUCK)
        pause();
    work_dense(w);
    if (wrong) /* a value of the product, on the device */
        w->ops->copy(w->dev, (char *)w->out + 8 * el, w->out, el);
    h = hash_of(w, host, w->out, T * (size_t)w->N * el, h);
    if (w->E == 0)
        return h;
    work_experts(w);
    return hash_of(w, host, w->y, T * (size_t)w->D * el, h);
}

int work_bits(struct device_work *w, int repeats, uint64_t *hash, int *differ,
              struct err *err)
{
    size_t wide = (size_t)(w->N > w->D ? w->N : w->D);
    char *host = malloc((size_t)least(w->T, BITS_TOKENS) * wide * w->ops->elem_bytes);

    if (!host)
        return err_set(err, ERR_SYSTEM, "no memory to read results back");
    *differ = 0;
    for (int i = 0; i < repeats; i++) {
        uint64_t h = hash_round(w, host, i);

        if (i == 0)
            *hash = h;
        *differ += h != *hash;
    }
    free(host);
    return w->ops->status(w->dev, err);
}
