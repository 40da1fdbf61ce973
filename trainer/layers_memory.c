/* Sizes and places of what layers keep and what they borrow.
 *
 * One walk over the pieces does both: with a NULL base it only counts, so that the
 * size and the carving cannot disagree. */
#include "trainer/layers.h"

enum { PIECE_ALIGN = 256 };

struct carver {
    char *base; /* NULL: count */
    size_t used;
};

static void *piece(struct carver *c, size_t bytes)
{
    void *at = c->base ? c->base + c->used : NULL;

    if (bytes == 0)
        return NULL;
    c->used += (bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    return at;
}

/* Which pieces each mode keeps. */
enum { KEEP_ATTENTION = 1, KEEP_HIDDEN = 2 };

static int kept(enum ac_mode ac)
{
    switch (ac) {
    case AC_NONE:
        return KEEP_ATTENTION | KEEP_HIDDEN;
    case AC_SELECTIVE:
        return KEEP_ATTENTION;
    case AC_FULL:
        break;
    }
    return 0;
}

/* qkv up to the route: all that is not the experts' pre-activation. */
static void attention_pieces(struct carver *c, struct saved *s, const struct model *m,
                             size_t elem, size_t T)
{
    size_t D = (size_t)m->hidden, E = (size_t)m->experts, R = T * (size_t)m->top_k;
    size_t H = (size_t)m->heads;

    s->qkv = piece(c, elem * T * (size_t)model_qkv_dim(m));
    s->attn = piece(c, elem * T * H * (size_t)m->head_dim);
    s->lse = piece(c, sizeof(float) * T * H);
    s->mid = piece(c, elem * T * D);
    s->rstd1 = piece(c, sizeof(float) * T);
    s->rstd2 = piece(c, sizeof(float) * T);
    s->logits = piece(c, sizeof(float) * T * E);
    s->route.expert = piece(c, sizeof(int32_t) * R);
    s->route.weight = piece(c, sizeof(float) * R);
    s->route.count = piece(c, sizeof(int32_t) * E);
    s->route.offset = piece(c, sizeof(int32_t) * (E + 1));
    s->route.token = piece(c, sizeof(int32_t) * R);
    s->route.row = piece(c, sizeof(int32_t) * R);
}

static void hidden_pieces(struct carver *c, struct saved *s, const struct model *m,
                          size_t elem, size_t T)
{
    s->h = piece(c, elem * T * (size_t)m->top_k * 2 * (size_t)m->expert_ffn);
    s->hs = piece(c, elem * T * 2 * (size_t)m->shared_ffn);
}

/* The pieces whose bits are in `which`. */
static void pieces(struct carver *c, struct saved *s, const struct model *m,
                   const struct ops *ops, int which, size_t T)
{
    if (which & KEEP_ATTENTION)
        attention_pieces(c, s, m, ops->elem_bytes, T);
    if (which & KEEP_HIDDEN)
        hidden_pieces(c, s, m, ops->elem_bytes, T);
}

static void saved_pieces(struct carver *c, struct saved *s, const struct model *m,
                         const struct ops *ops, enum ac_mode ac, size_t T)
{
    s->x = piece(c, ops->elem_bytes * T * (size_t)m->hidden);
    pieces(c, s, m, ops, kept(ac), T);
}

size_t saved_bytes(const struct model *m, const struct ops *ops, enum ac_mode ac, int B,
                   int S)
{
    struct carver c = { NULL, 0 };
    struct saved s;

    saved_pieces(&c, &s, m, ops, ac, (size_t)B * (size_t)S);
    return c.used;
}

void saved_carve(struct saved *s, void *base, const struct model *m,
                 const struct ops *ops, enum ac_mode ac, int B, int S)
{
    struct carver c = { base, 0 };

    saved_pieces(&c, s, m, ops, ac, (size_t)B * (size_t)S);
}

static int dropped(enum ac_mode ac)
{
    return kept(AC_NONE) & ~kept(ac);
}

size_t recompute_bytes(const struct model *m, const struct ops *ops, enum ac_mode ac,
                       int B, int S)
{
    struct carver c = { NULL, 0 };
    struct saved s;

    pieces(&c, &s, m, ops, dropped(ac), (size_t)B * (size_t)S);
    return c.used;
}

void recompute_carve(struct saved *s, void *base, const struct model *m,
                     const struct ops *ops, enum ac_mode ac, int B, int S)
{
    struct carver c = { base, 0 };

    pieces(&c, s, m, ops, dropped(ac), (size_t)B * (size_t)S);
}

/* --- work ------------------------------------------------------------------------ */
static void layer_work(struct carver *c, struct work *w, const struct model *m,
                       size_t elem, size_t T)
{
    size_t q = elem * T * (size_t)m->heads * (size_t)m->head_dim;
    size_t k = elem * T * (size_t)m->kv_heads * (size_t)m->head_dim;

    w->q = piece(c, q);
    w->k = piece(c, k);
    w->dq = piece(c, q);
    w->dk = piece(c, k);
    w->dqkv = piece(c, elem * T * (size_t)model_qkv_dim(m));
    w->dattn = piece(c, q);
    w->dlogits = piece(c, sizeof(float) * T * (size_t)m->experts);
    w->dweight = piece(c, sizeof(float) * T * (size_t)m->top_k);
    w->act_s = piece(c, elem * T * (size_t)m->shared_ffn);
    w->dact_s = piece(c, elem * T * (size_t)m->shared_ffn);
    w->dhs = piece(c, elem * T * 2 * (size_t)m->shared_ffn);
}

static void work_pieces(struct carver *c, struct work *w, const struct model *m,
                        const struct ops *ops, size_t T, int loss_chunk)
{
    size_t elem = ops->elem_bytes, row = elem * (size_t)m->hidden;
    size_t chunk = loss_chunk > 0 && (size_t)loss_chunk < T ? (size_t)loss_chunk : T;
    struct carver head;

    w->norm = piece(c, T * row);
    w->dnorm = piece(c, T * row);
    w->rstd = piece(c, sizeof(float) * T);
    w->loss = piece(c, sizeof(float) * T);
    head = *c; /* layers and head never run at once */
    w->logits_chunk = piece(&head, elem * chunk * (size_t)m->vocab);
    layer_work(c, w, m, elem, T);
    if (head.used > c->used)
        c->used = head.used;
}

size_t work_bytes(const struct model *m, const struct ops *ops, int B, int S,
                  int loss_chunk)
{
    struct carver c = { NULL, 0 };
    struct work w;

    work_pieces(&c, &w, m, ops, (size_t)B * (size_t)S, loss_chunk);
    return c.used;
}

void work_carve(struct work *w, void *base, const struct model *m,
                const struct ops *ops, int B, int S, int loss_chunk)
{
    struct carver c = { base, 0 };

    work_pieces(&c, w, m, ops, (size_t)B * (size_t)S, loss_chunk);
}
