#include "trainer/meter.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "recipes/model.h"
#include "trainer/coll.h"
#include "trainer/memplan.h"
#include "trainer/ops.h"

static_assert(sizeof(struct step_record) == 32, "a record is exchanged as bytes");

static int64_t table_bytes(int layers, int experts)
{
    return mem_align((int64_t)layers * experts * 4);
}

int64_t meter_bytes(const struct model *m)
{
    return INT64_C(2) * MEM_ALIGN +
           MEM_MAX_WORLD * (int64_t)sizeof(struct step_record) +
           2 * table_bytes(m->layers, m->experts);
}

void meter_carve(struct meter *m, void *base)
{
    char *at = base;

    m->loss = (float *)at;
    m->early = (double *)(at + MEM_ALIGN / 2);
    m->loss_total = (float *)(at += MEM_ALIGN);
    m->record = (struct step_record *)(at += MEM_ALIGN);
    m->counts = (int32_t *)(at += MEM_MAX_WORLD * sizeof(struct step_record));
    m->bias = (float *)(at + table_bytes(m->layers, m->experts));
    m->all = xcalloc((size_t)m->size, sizeof(*m->all));
    m->rows = xcalloc((size_t)m->layers * (size_t)m->experts, sizeof(*m->rows));
}

void meter_release(struct meter *m)
{
    free(m->all);
    free(m->rows);
    m->all = NULL;
    m->rows = NULL;
}

void meter_begin(struct meter *m)
{
    m->ops->zero(m->dev, m->loss_total, sizeof(float));
    m->ops->zero(m->dev, m->counts, (size_t)m->layers * (size_t)m->experts * 4);
}

void meter_early(struct meter *m, const float *grads, int64_t n)
{
    m->ops->sumsq_f32(m->dev, m->early, grads, n);
    m->took_early = 1;
}

static int gather_records(struct meter *m, struct err *err)
{
    struct coll_req *req = NULL;

    if (m->coll->all_gather(m->world, &req, m->record, m->record + m->rank,
                            sizeof(*m->record), COLL_BYTE, err) ||
        m->coll->finish(m->world, &req, err))
        return err_wrap(err, "exchanging the ranks' figures");
    return 0;
}

static int sum_rows(struct meter *m, struct err *err)
{
    int64_t cells = (int64_t)m->layers * m->experts;
    struct coll_req *req = NULL;

    if (m->coll->all_reduce(m->world, &req, m->counts, cells, COLL_I32, err) ||
        m->coll->finish(m->world, &req, err))
        return err_wrap(err, "summing the experts' rows");
    return 0;
}

static int read_records(struct meter *m, struct err *err)
{
    m->ops->download(m->dev, m->all, m->record, (size_t)m->size * sizeof(*m->all));
    return m->ops->status(m->dev, err);
}

int meter_share(struct meter *m, const struct step_record *mine, struct err *err)
{
    m->ops->upload(m->dev, m->record + m->rank, mine, sizeof(*mine));
    return gather_records(m, err) ? -1 : read_records(m, err);
}

int meter_agree(struct meter *m, int failed, int *first, struct err *err)
{
    struct step_record mine = { .stop = failed != 0 };

    if (meter_share(m, &mine, err))
        return -1;
    *first = -1;
    for (int r = m->size - 1; r >= 0; r--)
        if (m->all[r].stop)
            *first = r;
    return 0;
}

static int same_bits(double a, double b)
{
    uint64_t x, y;

    memcpy(&x, &a, sizeof(x));
    memcpy(&y, &b, sizeof(y));
    return x == y;
}

static void total(const struct meter *m, struct step_totals *t)
{
    *t = (struct step_totals){ .bad_loss = -1, .bad_grad = -1, .strayed = -1 };
    for (int r = 0; r < m->size; r++)
        m->all[r].sumsq += m->all[r].early;
    for (int r = m->size - 1; r >= 0; r--) {
        if (!isfinite(m->all[r].loss_sum))
            t->bad_loss = r;
        if (!isfinite(m->all[r].sumsq))
            t->bad_grad = r;
        if (!same_bits(m->all[r].sumsq, m->all[r % m->shard].sumsq))
            t->strayed = r;
    }
    for (int r = 0; r < m->size; r++) {
        t->loss_sum += m->all[r].loss_sum;
        t->tokens += m->all[r].tokens;
        t->stop |= m->all[r].stop;
        t->sumsq += r < m->shard ? m->all[r].sumsq : 0;
    }
}

int meter_finish(struct meter *m, const float *grads, int64_t n, int64_t tokens,
                 int stop, struct step_totals *out, struct err *err)
{
    struct step_record mine = { .tokens = (int32_t)tokens, .stop = stop };
    struct step_record *at = m->record + m->rank;

    m->ops->upload(m->dev, at, &mine, sizeof(mine));
    m->ops->copy(m->dev, &at->loss_sum, m->loss_total, sizeof(float));
    if (grads)
        m->ops->sumsq_f32(m->dev, &at->sumsq, grads, n);
    if (grads && m->took_early)
        m->ops->copy(m->dev, &at->early, m->early, sizeof(double));
    m->took_early = 0;
    if (gather_records(m, err) || (grads && sum_rows(m, err)))
        return -1;
    if (grads)
        m->ops->download(m->dev, m->rows, m->counts,
                         (size_t)m->layers * (size_t)m->experts * 4);
    if (read_records(m, err))
        return -1;
    total(m, out);
    return 0;
}
