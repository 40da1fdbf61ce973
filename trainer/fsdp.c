#include "trainer/fsdp.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/coll.h"
#include "trainer/ops.h"
#include "trainer/units.h"

enum { REPLICA_WINDOW = 8 /* reductions between replicas in flight */ };

/* Gathered weights: which unit a place holds, and its gather if in flight. */
struct place {
    int unit; /* -1: nothing */
    struct coll_req *req;
};

/* A ring slot of full gradients whose reduction is under way. */
struct pending {
    int unit; /* -1: nothing */
    int micro, last;
    struct coll_req *req;
};

struct fsdp {
    struct fsdp_config c;
    struct place *place;
    struct pending pending[3];
    struct coll_req *replica[REPLICA_WINDOW];
    int64_t replicas; /* begun since the step began */
};

struct fsdp *fsdp_new(const struct fsdp_config *c)
{
    struct fsdp *f = xcalloc(1, sizeof(*f));

    f->c = *c;
    f->place = xcalloc((size_t)c->units->n + 3, sizeof(*f->place));
    for (int i = 0; i < c->units->n + 3; i++)
        f->place[i].unit = -1;
    for (int i = 0; i < 3; i++)
        f->pending[i].unit = -1;
    return f;
}

void fsdp_free(struct fsdp *f)
{
    if (!f)
        return;
    free(f->place);
    free(f);
}

static struct place *place_of(struct fsdp *f, int unit)
{
    return &f->place[f->c.reshard_after_forward ? units_slot(f->c.units, unit) : unit];
}

static char *gathered_at(const struct fsdp *f, int unit)
{
    int64_t at = f->c.reshard_after_forward ? units_ring_offset(f->c.units, unit)
                                            : units_flat_offset(f->c.units, unit);

    return (char *)f->c.gathered + at * (int64_t)f->c.ops->elem_bytes;
}

static char *shard_at(const struct fsdp *f, int unit)
{
    return (char *)f->c.weights +
           units_shard_offset(f->c.units, unit) * (int64_t)f->c.ops->elem_bytes;
}

void fsdp_invalidate(struct fsdp *f)
{
    for (int i = 0; i < f->c.units->n + 3; i++)
        f->place[i].unit = -1;
}

int fsdp_prefetch(struct fsdp *f, int unit, struct err *err)
{
    const struct fsdp_config *c = &f->c;
    struct place *p = place_of(f, unit);

    if (c->units->shard == 1 || p->unit == unit)
        return 0;
    if (p->req && c->coll->finish(c->gather, &p->req, err))
        return -1;
    if (c->coll->all_gather(c->gather, &p->req, gathered_at(f, unit), shard_at(f, unit),
                            units_part(c->units, unit), COLL_ELEM, err))
        return err_wrap(err, "gathering the weights of unit %d", unit);
    p->unit = unit;
    return 0;
}

int fsdp_weights(struct fsdp *f, int unit, const void **out, struct err *err)
{
    struct place *p = place_of(f, unit);

    if (f->c.units->shard == 1) {
        *out = shard_at(f, unit);
        return 0;
    }
    if (fsdp_prefetch(f, unit, err))
        return -1;
    if (p->req && f->c.coll->finish(f->c.gather, &p->req, err))
        return err_wrap(err, "gathering the weights of unit %d", unit);
    *out = gathered_at(f, unit);
    return 0;
}

static float *reduced_at(const struct fsdp *f, int unit)
{
    return f->c.grads + units_shard_offset(f->c.units, unit);
}

/* Is the full gradient the shard's own place? */
static int direct(const struct fsdp *f, int micro)
{
    return f->c.units->shard == 1 && micro == 0;
}

static float *full_at(const struct fsdp *f, int unit, int micro)
{
    if (direct(f, micro))
        return reduced_at(f, unit);
    return f->c.full + units_ring_offset(f->c.units, unit);
}

static int begin_replica(struct fsdp *f, int unit, struct err *err)
{
    struct coll_req **req = &f->replica[f->replicas++ % REPLICA_WINDOW];
    const struct fsdp_config *c = &f->c;

    if (*req && c->coll->finish(c->replica, req, err))
        return err_wrap(err, "summing gradients over the replicas");
    if (c->coll->all_reduce(c->replica, req, reduced_at(f, unit),
                            units_part(c->units, unit), COLL_F32, err))
        return err_wrap(err, "summing the gradients of unit %d over the replicas",
                        unit);
    return 0;
}

/* The rank's own part of a full gradient buffer. */
static float *own_part(struct fsdp *f, int unit, int micro)
{
    int rank = f->c.units->shard == 1 ? 0 : f->c.coll->rank(f->c.reduce);

    return full_at(f, unit, micro) + rank * units_part(f->c.units, unit);
}

/* Work queued from now on may overwrite the slot. */
static int retire(struct fsdp *f, int slot, struct err *err)
{
    struct pending *p = &f->pending[slot];
    const struct fsdp_config *c = &f->c;
    int unit = p->unit;

    if (unit < 0)
        return 0;
    p->unit = -1;
    if (p->req && c->coll->finish(c->reduce, &p->req, err))
        return err_wrap(err, "reducing the gradients of unit %d", unit);
    if (p->micro > 0)
        c->ops->add_f32(c->dev, reduced_at(f, unit), own_part(f, unit, p->micro),
                        units_part(c->units, unit));
    return p->last && c->replica ? begin_replica(f, unit, err) : 0;
}

/* Layouts share slots, so what one leaves in another's pads must go: it would
 * count in the norm and drift in the moments. */
static void zero_pads(const struct fsdp *f, const struct unit_layout *l, float *grads)
{
    int64_t end = 0;

    for (int i = 0; i <= l->n; i++) {
        int64_t next = i < l->n ? l->tensor[i].offset : l->padded;

        if (next > end)
            f->c.ops->zero(f->c.dev, grads + end, (size_t)(next - end) * sizeof(float));
        if (i < l->n)
            end = next + l->tensor[i].count;
    }
}

int fsdp_grads(struct fsdp *f, int unit, int micro, float **out, struct err *err)
{
    const struct unit_layout *l = units_at(f->c.units, unit);
    float *grads = full_at(f, unit, micro);

    if (retire(f, units_slot(f->c.units, unit), err))
        return -1;
    if (l->kind == UNIT_EMBED)
        f->c.ops->zero(f->c.dev, grads, (size_t)l->padded * sizeof(float));
    else
        zero_pads(f, l, grads);
    *out = grads;
    return 0;
}

int fsdp_reduce(struct fsdp *f, int unit, int micro, int last, struct err *err)
{
    const struct fsdp_config *c = &f->c;
    struct pending *p = &f->pending[units_slot(c->units, unit)];
    float *full = full_at(f, unit, micro);
    float *to = micro == 0 ? reduced_at(f, unit) : own_part(f, unit, micro);

    *p = (struct pending){ .unit = unit, .micro = micro, .last = last };
    if (c->units->shard == 1)
        return 0;
    if (c->coll->reduce_scatter(c->reduce, &p->req, to, full,
                                units_part(c->units, unit), err))
        return err_wrap(err, "reducing the gradients of unit %d", unit);
    return 0;
}

int fsdp_finish(struct fsdp *f, struct err *err)
{
    for (int slot = 0; slot < 3; slot++)
        if (retire(f, slot, err))
            return -1;
    for (int i = 0; i < REPLICA_WINDOW; i++)
        if (f->replica[i] && f->c.coll->finish(f->c.replica, &f->replica[i], err))
            return err_wrap(err, "summing gradients over the replicas");
    f->replicas = 0;
    return 0;
}
