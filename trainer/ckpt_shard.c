#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/ckpt.h"
#include "trainer/ops.h"
#include "trainer/safetensors.h"
#include "trainer/units.h"

static const char *const kinds[CKPT_KINDS] = { "master", "exp_avg", "exp_avg_sq" };

const char *ckpt_kind_name(int kind)
{
    return kinds[kind];
}

char *ckpt_shard_path(const char *dir, int rank, int shard)
{
    return xasprintf("%s/shard-%05d-of-%05d.safetensors", dir, rank, shard);
}

static char *piece_name(const struct units *u, int unit, int kind)
{
    if (unit == 0)
        return xasprintf("embed.%s", kinds[kind]);
    if (unit == u->n - 1)
        return xasprintf("head.%s", kinds[kind]);
    return xasprintf("layers.%d.%s", unit - 1, kinds[kind]);
}

int64_t ckpt_checksum(const void *bytes, int64_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (int64_t at = 0; at < n; at += 4) {
        uint32_t word = 0;

        memcpy(&word, (const char *)bytes + at, (size_t)(n - at < 4 ? n - at : 4));
        h = (h ^ word) * UINT64_C(0x100000001b3);
    }
    return (int64_t)h;
}

int64_t ckpt_blocks(int64_t elements)
{
    return (elements + CKPT_BLOCK - 1) / CKPT_BLOCK;
}

static int64_t all_blocks(const struct units *u)
{
    int64_t n = 0;

    for (int unit = 0; unit < u->n; unit++)
        n += CKPT_KINDS * ckpt_blocks(units_part(u, unit));
    return n;
}

/* --- writing ------------------------------------------------------------------- */
struct writing {
    const struct ckpt *c;
    struct st_writer *w;
    float *block;  /* [CKPT_BLOCK] */
    int64_t *sums; /* of every block, in the order of the file */
    int64_t n_sums;
};

static int write_piece(struct writing *w, int unit, int kind, struct err *err)
{
    const struct ckpt *c = w->c;
    int64_t part = units_part(c->units, unit);
    const float *src = c->state[kind] + units_shard_offset(c->units, unit);

    for (int64_t at = 0; at < part; at += CKPT_BLOCK) {
        int64_t n = part - at < CKPT_BLOCK ? part - at : CKPT_BLOCK;

        c->ops->download(c->dev, w->block, src + at, (size_t)n * sizeof(float));
        w->sums[w->n_sums++] = ckpt_checksum(w->block, n * 4);
        if (st_write(w->w, unit * CKPT_KINDS + kind, at * 4, w->block, n * 4, err))
            return -1;
    }
    return c->ops->status(c->dev, err);
}

static struct st_tensor *declare(const struct units *u, int *n)
{
    struct st_tensor *t = xcalloc((size_t)u->n * CKPT_KINDS + 1, sizeof(*t));

    *n = 0;
    for (int unit = 0; unit < u->n; unit++)
        for (int kind = 0; kind < CKPT_KINDS; kind++)
            t[(*n)++] = (struct st_tensor){ .name = piece_name(u, unit, kind),
                                            .type = ST_F32,
                                            .dims = 1,
                                            .shape = { units_part(u, unit) } };
    t[(*n)++] = (struct st_tensor){ .name = xstrdup("checksums"),
                                    .type = ST_I64,
                                    .dims = 1,
                                    .shape = { all_blocks(u) } };
    return t;
}

static int write_pieces(struct writing *w, int checksums, struct err *err)
{
    for (int unit = 0; unit < w->c->units->n; unit++)
        for (int kind = 0; kind < CKPT_KINDS; kind++)
            if (write_piece(w, unit, kind, err))
                return -1;
    return st_write(w->w, checksums, 0, w->sums, w->n_sums * 8, err);
}

int ckpt_shard_write(const struct ckpt *c, const char *dir, struct err *err)
{
    char *path = ckpt_shard_path(dir, c->shard_rank, c->units->shard);
    struct writing w = { .c = c };
    struct st_tensor *t;
    int n, rc = -1;

    t = declare(c->units, &n);
    w.block = xcalloc(CKPT_BLOCK, sizeof(float));
    w.sums = xcalloc((size_t)all_blocks(c->units), sizeof(int64_t));
    if (st_create(path, t, n, NULL, &w.w, err))
        goto out;
    if (write_pieces(&w, n - 1, err)) {
        st_abandon(w.w);
        goto out;
    }
    rc = st_commit(w.w, err);
out:
    for (int i = 0; i < n; i++)
        free(t[i].name);
    free(t);
    free(w.block);
    free(w.sums);
    free(path);
    return rc;
}

/* --- reading ------------------------------------------------------------------- */
struct reading {
    const struct ckpt *c;
    const char *path;
    struct st_file *f;
    struct units old; /* as written */
    float *block;     /* [CKPT_BLOCK] */
    int64_t *sums;
};

/* What the file and this rank have in common of one unit. */
struct piece {
    const struct st_tensor *t;
    float *dst;          /* device: where this rank's part starts */
    int64_t start, part; /* the file holds elements [start, start + part) */
    int64_t from, to;    /* this rank owns [from, to) */
    int64_t first_sum;
};

static int read_blocks(struct reading *r, const struct piece *p, struct err *err)
{
    const struct ckpt *c = r->c;

    for (int64_t at = 0, b = 0; at < p->part; at += CKPT_BLOCK, b++) {
        int64_t n = p->part - at < CKPT_BLOCK ? p->part - at : CKPT_BLOCK;
        int64_t lo = p->start + at, hi = lo + n;
        int64_t a = lo > p->from ? lo : p->from, z = hi < p->to ? hi : p->to;

        if (a >= z)
            continue;
        if (st_read(r->f, p->t, at * 4, r->block, n * 4, err))
            return -1;
        if (ckpt_checksum(r->block, n * 4) != r->sums[p->first_sum + b])
            return err_set(err, ERR_USAGE,
                           "%s: %s is damaged: the checksum of block %lld does not "
                           "match; resume from an older checkpoint",
                           r->path, p->t->name, (long long)b);
        c->ops->upload(c->dev, p->dst + (a - p->from), r->block + (a - lo),
                       (size_t)(z - a) * sizeof(float));
    }
    return 0;
}

static int find_tensor(const struct reading *r, const char *name, enum st_type type,
                       int64_t n, const struct st_tensor **out, struct err *err)
{
    const struct st_tensor *t = st_find(r->f, name);

    if (!t || t->type != type || t->dims != 1 || t->shape[0] != n)
        return err_set(err, ERR_USAGE, "%s: no %s of %lld elements in it", r->path,
                       name, (long long)n);
    *out = t;
    return 0;
}

static int read_unit(struct reading *r, int unit, int from, int64_t *sum,
                     struct err *err)
{
    const struct ckpt *c = r->c;
    int64_t old = units_part(&r->old, unit), own = units_part(c->units, unit);
    struct piece p = { .start = from * old,
                       .part = old,
                       .from = c->shard_rank * own,
                       .to = (c->shard_rank + 1) * own };

    for (int kind = 0; kind < CKPT_KINDS; kind++, *sum += ckpt_blocks(old)) {
        char *name = piece_name(c->units, unit, kind);
        int rc = find_tensor(r, name, ST_F32, old, &p.t, err);

        free(name);
        p.dst = c->state[kind] + units_shard_offset(c->units, unit);
        p.first_sum = *sum;
        if (rc || read_blocks(r, &p, err))
            return -1;
    }
    return 0;
}

static int read_sums(struct reading *r, struct err *err)
{
    int64_t n = all_blocks(&r->old);
    const struct st_tensor *t;

    r->sums = xcalloc((size_t)n, sizeof(*r->sums));
    return find_tensor(r, "checksums", ST_I64, n, &t, err)
               ? -1
               : st_read(r->f, t, 0, r->sums, n * 8, err);
}

/* Do part `from` of the old cut and this rank's part of the new meet anywhere? */
static int meets(const struct ckpt *c, const struct units *old, int from)
{
    for (int unit = 0; unit < c->units->n; unit++) {
        int64_t a = units_part(old, unit), b = units_part(c->units, unit);

        if (from * a < (c->shard_rank + 1) * b && c->shard_rank * b < (from + 1) * a)
            return 1;
    }
    return 0;
}

int ckpt_shard_read(const struct ckpt *c, const char *dir, int from, int shard,
                    struct err *err)
{
    char *path = ckpt_shard_path(dir, from, shard);
    struct reading r = { .c = c, .path = path };
    int64_t sum = 0;
    int rc = -1;

    units_make(&c->recipe->model, shard, &r.old);
    if (!meets(c, &r.old, from)) {
        rc = 0;
        goto out;
    }
    r.block = xcalloc(CKPT_BLOCK, sizeof(float));
    if (st_open(path, &r.f, err) || read_sums(&r, err))
        goto out;
    for (int unit = 0; unit < c->units->n; unit++)
        if (read_unit(&r, unit, from, &sum, err))
            goto out;
    rc = 0;
out:
    st_close(r.f);
    free(r.block);
    free(r.sums);
    free(path);
    return rc;
}
