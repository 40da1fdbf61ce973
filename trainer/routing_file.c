/* Recordings of routing: see routing.h. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/routing.h"
#include "trainer/safetensors.h"

enum { MOST_ROWS = 1 << 28 };

void routing_counts_release(struct routing_counts *c)
{
    free(c->rows);
    *c = (struct routing_counts){ 0 };
}

void routing_add(struct routing_counts *c, const int32_t *rows)
{
    size_t n = (size_t)c->layers * (size_t)c->experts;

    c->rows = xrealloc(c->rows, ((size_t)c->steps + 1) * n, sizeof(*c->rows));
    memcpy(c->rows + (size_t)c->steps * n, rows, n * sizeof(*rows));
    c->steps++;
}

/* --- reading ---------------------------------------------------------------------- */

static int64_t meta_int(const struct st_file *f, const char *key)
{
    const char *text = st_meta(f, key);

    return text ? strtoll(text, NULL, 10) : 0;
}

static int read_rows(struct st_file *f, const struct st_tensor *t, int32_t *rows,
                     int64_t n, struct err *err)
{
    uint16_t *narrow;

    if (t->type == ST_I32)
        return st_read(f, t, 0, rows, n * 4, err);
    narrow = xcalloc((size_t)n, sizeof(*narrow));
    if (st_read(f, t, 0, narrow, n * 2, err)) {
        free(narrow);
        return -1;
    }
    for (int64_t i = 0; i < n; i++)
        rows[i] = narrow[i];
    free(narrow);
    return 0;
}

/* Each layer of each step holds top_k rows a token, no expert more than one a token. */
static int check_rows(const char *path, const struct routing_counts *c, struct err *err)
{
    for (int i = 0; i < c->steps * c->layers; i++) {
        const int32_t *rows = c->rows + (int64_t)i * c->experts;
        int64_t sum = 0;

        for (int e = 0; e < c->experts; e++) {
            sum += rows[e];
            if (rows[e] < 0 || rows[e] > c->tokens)
                return err_set(err, ERR_USAGE,
                               "%s: step %d, layer %d: expert %d has %d rows of %lld "
                               "tokens",
                               path, i / c->layers, i % c->layers, e, rows[e],
                               (long long)c->tokens);
        }
        if (sum != c->tokens * c->top_k)
            return err_set(err, ERR_USAGE,
                           "%s: step %d, layer %d holds %lld rows, not %lld tokens x "
                           "top_k %d",
                           path, i / c->layers, i % c->layers, (long long)sum,
                           (long long)c->tokens, c->top_k);
    }
    return 0;
}

static int read_file(struct st_file *f, const char *path, struct routing_counts *c,
                     struct err *err)
{
    const struct st_tensor *t = st_find(f, "counts");
    int64_t n = 1;

    if (!t || t->dims != 3 || (t->type != ST_U16 && t->type != ST_I32))
        return err_set(err, ERR_USAGE,
                       "%s: no recording of routing: it has no tensor counts [steps, "
                       "layers, experts] of U16 or I32",
                       path);
    for (int d = 0; d < 3 && n > 0; d++)
        n = t->shape[d] > 0 && t->shape[d] <= MOST_ROWS / n ? n * t->shape[d] : 0;
    c->tokens = meta_int(f, "tokens");
    c->top_k = (int)meta_int(f, "top_k");
    if (n == 0 || c->tokens < 1 || c->tokens > INT32_MAX || c->top_k < 1)
        return err_set(err, ERR_USAGE,
                       "%s: counts are empty or too many, or the metadata lacks tokens "
                       "or top_k",
                       path);
    c->steps = (int)t->shape[0];
    c->layers = (int)t->shape[1];
    c->experts = (int)t->shape[2];
    c->rows = xcalloc((size_t)n, sizeof(*c->rows));
    if (read_rows(f, t, c->rows, n, err))
        return -1;
    return check_rows(path, c, err);
}

int routing_load(const char *path, struct routing_counts *out, struct err *err)
{
    struct routing_counts c = { 0 };
    struct st_file *f;
    int rc;

    if (st_open(path, &f, err))
        return err_wrap(err, "debug.moe_counts");
    rc = read_file(f, path, &c, err);
    st_close(f);
    if (rc == 0)
        *out = c;
    else
        routing_counts_release(&c);
    return rc;
}

/* --- writing ---------------------------------------------------------------------- */

static struct js *metadata(const struct routing_counts *c, const struct recipe *r)
{
    struct js *o = js_object();
    char *text = xasprintf("%d", c->top_k),
         *tokens = xasprintf("%lld", (long long)c->tokens);
    static const char *const keys[] = { "name",
                                        "model.preset",
                                        "training.seq_len",
                                        "training.seed",
                                        "optimizer.lr",
                                        "lr_scheduler.warmup_steps",
                                        "model.bias_update_rate",
                                        "debug.moe_routing" };

    js_put_str(o, "top_k", text);
    js_put_str(o, "tokens", tokens);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        char *value = recipe_get(r, keys[i]);

        js_put_str(o, keys[i], value);
        free(value);
    }
    free(text);
    free(tokens);
    return o;
}

/* As U16 into `narrow`; 0 when a number is too large. */
static int fits_u16(const int32_t *rows, int64_t n, uint16_t *narrow)
{
    for (int64_t i = 0; i < n; i++) {
        if (rows[i] > UINT16_MAX)
            return 0;
        narrow[i] = (uint16_t)rows[i];
    }
    return 1;
}

int routing_save(const char *path, const struct routing_counts *c,
                 const struct recipe *r, struct err *err)
{
    int64_t n = (int64_t)c->steps * c->layers * c->experts;
    uint16_t *narrow = xcalloc((size_t)n + 1, sizeof(*narrow));
    int small = fits_u16(c->rows, n, narrow);
    char name[] = "counts";
    struct st_tensor t = { .name = name,
                           .type = small ? ST_U16 : ST_I32,
                           .dims = 3,
                           .shape = { c->steps, c->layers, c->experts } };
    struct js *meta = metadata(c, r);
    struct st_writer *w = NULL;
    int rc = st_create(path, &t, 1, meta, &w, err);

    if (rc == 0) {
        rc = st_write(w, 0, 0, small ? (const void *)narrow : (const void *)c->rows,
                      n * (small ? 2 : 4), err);
        if (rc == 0)
            rc = st_commit(w, err);
        else
            st_abandon(w);
    }
    js_free(meta);
    free(narrow);
    return rc;
}

/* --- with a run ------------------------------------------------------------------- */
/* NOLINTNEXTLINE(readability-non-const-parameter): the path becomes ours */
void routing_record_open(struct routing_recorder *r, char *path, const struct model *m)
{
    *r = (struct routing_recorder){
        .path = path,
        .counts = { .layers = m->layers, .experts = m->experts, .top_k = m->top_k }
    };
}

void routing_record_step(struct routing_recorder *r, const struct recipe *recipe,
                         const int32_t *rows)
{
    if (!r->path)
        return;
    r->counts.tokens = recipe->training.global_batch_size * recipe->training.seq_len;
    routing_add(&r->counts, rows);
}

int routing_record_close(struct routing_recorder *r, const struct recipe *recipe,
                         struct err *err)
{
    int rc = 0;

    if (r->path && r->counts.steps > 0)
        rc = routing_save(r->path, &r->counts, recipe, err);
    if (r->path && r->counts.steps > 0 && rc == 0)
        log_info("recorded the routing of %d steps in %s", r->counts.steps, r->path);
    routing_counts_release(&r->counts);
    free(r->path);
    *r = (struct routing_recorder){ 0 };
    return rc;
}
