#include "trainer/routing.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/balance.h"
#include "trainer/ops.h"

enum { SKEW = 10 /* max:mean */ };

int64_t routing_bytes(const struct recipe *r)
{
    if (r->debug.moe_routing == ROUTING_NATURAL)
        return 0;
    return (int64_t)r->model.layers * (r->model.experts + 1) * (int64_t)sizeof(int32_t);
}

void routing_scale(const int32_t *in, int n, int64_t total, int64_t most, int32_t *out)
{
    int64_t sum = 0, left = total;
    double *rest = xcalloc((size_t)n, sizeof(*rest));

    for (int i = 0; i < n; i++)
        sum += in[i];
    for (int i = 0; i < n; i++) {
        int64_t whole = sum ? in[i] * total / sum : 0;

        out[i] = (int32_t)(whole < most ? whole : most);
        rest[i] = (double)(in[i] * total - whole * sum);
        left -= out[i];
    }
    while (left > 0) { /* fewer than n times: each gets one at most */
        int best = -1;

        for (int i = 0; i < n; i++)
            if (out[i] < most && (best < 0 || rest[i] > rest[best]))
                best = i;
        if (best < 0)
            break;
        out[best]++;
        rest[best] = -1;
        left--;
    }
    free(rest);
}

/* The rows of one layer as places where each expert starts. */
static void set_offsets(const struct routing *t, const struct recipe *r,
                        const int32_t *rows, int32_t *offset)
{
    int E = t->experts;
    int32_t *scaled = xcalloc((size_t)E, sizeof(*scaled));

    routing_scale(rows, E, t->tokens * r->model.top_k, t->tokens, scaled);
    offset[0] = 0;
    for (int e = 0; e < E; e++)
        offset[e + 1] = offset[e] + scaled[e];
    free(scaled);
}

static void make_table(struct routing *t, const struct recipe *r,
                       const struct routing_counts *c)
{
    int64_t E = t->experts;

    t->steps = c->steps;
    t->given_layers = c->layers < t->layers ? c->layers : t->layers;
    t->offset = xcalloc((size_t)t->steps * (size_t)t->given_layers * ((size_t)E + 1),
                        sizeof(*t->offset));
    for (int s = 0; s < t->steps; s++)
        for (int l = 0; l < t->given_layers; l++)
            set_offsets(t, r, c->rows + ((int64_t)s * c->layers + l) * E,
                        t->offset + ((int64_t)s * t->given_layers + l) * (E + 1));
}

/* Rows in millionths of the mean. */
static void made_up(const struct recipe *r, struct routing_counts *c)
{
    int E = r->model.experts, K = r->model.top_k;
    double most = (double)E / K < SKEW ? (double)E / K : SKEW, rest = E - most;

    c->steps = 1;
    c->layers = r->model.layers;
    c->experts = E;
    c->top_k = K;
    c->rows = xcalloc((size_t)c->layers * (size_t)E, sizeof(*c->rows));
    for (int l = 0; l < c->layers; l++)
        for (int e = 0; e < E; e++) {
            int busiest = e == (l * 37 + 5) % E;
            double share = r->debug.moe_routing == ROUTING_BALANCED || E == 1 ? 1
                           : busiest                                          ? most
                                     : rest / (E - 1);

            c->rows[(int64_t)l * E + e] = (int32_t)(1e6 * share + 0.5);
        }
}

static int read_counts(const struct recipe *r, struct routing_counts *c,
                       struct err *err)
{
    if (routing_load(r->debug.moe_counts, c, err))
        return -1;
    if (c->experts == r->model.experts && c->top_k == r->model.top_k)
        return 0;
    err_set(err, ERR_USAGE,
            "%s: recorded with %d of %d experts, the model has %d of %d: record one "
            "with debug.moe_record",
            r->debug.moe_counts, c->top_k, c->experts, r->model.top_k,
            r->model.experts);
    routing_counts_release(c);
    return -1;
}

int routing_open(struct routing *t, const struct recipe *r, const struct ops *ops,
                 struct dev *dev, void *device, struct err *err)
{
    struct routing_counts c = { 0 };

    *t = (struct routing){ .ops = ops,
                           .dev = dev,
                           .kind = r->debug.moe_routing,
                           .layers = r->model.layers,
                           .experts = r->model.experts,
                           .tokens = (int64_t)r->training.local_batch_size *
                                     r->training.seq_len,
                           .device = device };
    if (t->kind == ROUTING_NATURAL)
        return 0;
    if (t->kind == ROUTING_REPLAY) {
        if (read_counts(r, &c, err))
            return -1;
    } else {
        made_up(r, &c);
    }
    make_table(t, r, &c);
    routing_counts_release(&c);
    routing_step(t, 0, 1);
    return 0;
}

void routing_release(struct routing *t)
{
    free(t->offset);
    *t = (struct routing){ 0 };
}

void routing_step(struct routing *t, int64_t step, int64_t steps)
{
    int64_t layer = t->experts + 1, at = step * t->steps / (steps > 0 ? steps : 1);

    t->step = step;
    if (t->kind == ROUTING_NATURAL)
        return;
    at = at < t->steps ? at : t->steps - 1;
    t->ops->upload(t->dev, t->device, t->offset + at * t->given_layers * layer,
                   (size_t)(t->given_layers * layer) * sizeof(*t->offset));
}

static int64_t common(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The tokens of one expert lie apart as evenly as the golden section does it, another
 * set in each layer and step. */
struct spread routing_layer(const struct routing *t, int layer)
{
    struct spread s = { NULL, 1, 0 };

    if (!t || t->kind == ROUTING_NATURAL)
        return s;
    s.offset = t->device + (int64_t)(layer % t->given_layers) * (t->experts + 1);
    s.mul = (int64_t)((double)t->tokens * 0.6180339887498949);
    s.mul = s.mul > 0 ? s.mul : 1;
    while (common(s.mul, t->tokens) != 1)
        s.mul++;
    s.add = (layer * INT64_C(40503) + t->step * INT64_C(9973)) % t->tokens;
    return s;
}

char *routing_describe(const struct routing *t, const struct recipe *r)
{
    double mean = 0;
    int32_t *rows;

    if (t->kind == ROUTING_NATURAL)
        return NULL;
    rows = xcalloc((size_t)t->experts, sizeof(*rows));
    for (int i = 0; i < t->steps * t->given_layers; i++) {
        const int32_t *offset = t->offset + (int64_t)i * (t->experts + 1);

        for (int e = 0; e < t->experts; e++)
            rows[e] = offset[e + 1] - offset[e];
        mean += balance_load(rows, 1, t->experts) / (t->steps * t->given_layers);
    }
    free(rows);
    return xasprintf("%s%s%s, %d step%s of %d layer%s, max:mean %.2f on average; the "
                     "router does not choose, so this run measures speed and learns "
                     "little",
                     routing_name(t->kind), t->kind == ROUTING_REPLAY ? " of " : "",
                     r->debug.moe_counts, t->steps, t->steps == 1 ? "" : "s",
                     t->given_layers, t->given_layers == 1 ? "" : "s", mean);
}
