#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/js.h"
#include "base/mem.h"
#include "recipes/recipe.h"
#include "trainer/ckpt.h"
#include "trainer/units.h"

#define MODEL_INT(f)                       \
    {                                      \
#f, (int)offsetof(struct model, f) \
    }

/* Another value of any of these is another model. */
static const struct shape_field {
    const char *key;
    int offset;
} shape_fields[] = {
    MODEL_INT(layers),     MODEL_INT(hidden),  MODEL_INT(heads), MODEL_INT(kv_heads),
    MODEL_INT(head_dim),   MODEL_INT(experts), MODEL_INT(top_k), MODEL_INT(expert_ffn),
    MODEL_INT(shared_ffn), MODEL_INT(vocab),   MODEL_INT(tied),
};

static int shape_value(const struct model *m, int i)
{
    return *(const int *)((const char *)m + shape_fields[i].offset);
}

static struct js *model_json(const struct model *m)
{
    struct js *o = js_object();

    for (int i = 0; i < (int)ARRAY_LEN(shape_fields); i++)
        js_put_int(o, shape_fields[i].key, shape_value(m, i));
    return o;
}

static struct js *layout_json(const struct unit_layout *l)
{
    struct js *o = js_object(), *tensors = js_array();

    for (int i = 0; i < l->n; i++) {
        const struct unit_tensor *t = &l->tensor[i];
        struct js *e = js_object(), *shape = js_array();

        for (int d = 0; d < t->dims; d++)
            js_push(shape, js_int(t->shape[d]));
        js_put_str(e, "name", t->name);
        js_put(e, "shape", shape);
        js_put_int(e, "offset", t->offset);
        js_put_int(e, "count", t->count);
        js_push(tensors, e);
    }
    js_put_int(o, "count", l->count);
    js_put_int(o, "padded", l->padded);
    js_put(o, "tensors", tensors);
    return o;
}

static struct js *bias_json(const struct ckpt *c)
{
    const struct model *m = &c->recipe->model;
    struct js *all = js_array();

    for (int i = 0; i < m->layers * m->experts; i++)
        js_push(all, js_real(c->bias[i]));
    return all;
}

struct js *ckpt_index_make(const struct ckpt *c, const struct ckpt_at *at)
{
    const struct recipe *r = c->recipe;
    struct js *o = js_document("checkpoint"), *units = js_object();
    char *text = recipe_text(r);

    js_put_int(o, "step", at->step);
    js_put_int(o, "tokens", at->tokens);
    js_put_int(o, "seed", r->training.seed);
    js_put_int(o, "seq_len", r->training.seq_len);
    js_put_int(o, "global_batch_size", r->training.global_batch_size);
    js_put_int(o, "world", c->world);
    js_put_int(o, "shard", c->units->shard);
    js_put_str(o, "version", MUSTER_VERSION);
    js_put_str(o, "device", c->ops->name);
    js_put(o, "model", model_json(&r->model));
    js_put(units, "embed", layout_json(&c->units->embed));
    js_put(units, "layer", layout_json(&c->units->layer));
    js_put(units, "head", layout_json(&c->units->head));
    js_put(o, "units", units);
    js_put(o, "router_bias", bias_json(c));
    js_put_str(o, "recipe", text);
    free(text);
    return o;
}

static int load_text(const char *path, int64_t want, struct js **index, struct err *err)
{
    char *text = NULL;
    int rc = -1, fd;
    int64_t bytes;

    if (file_open(path, &fd, &bytes, err))
        return -1;
    text = malloc((size_t)bytes + 1);
    if (!text)
        err_set(err, ERR_SYSTEM, "%s: no memory for %lld bytes", path,
                (long long)bytes);
    else if (file_read(fd, path, text, (size_t)bytes, 0, err) == 0)
        rc = ckpt_checksum(text, bytes) == want
                 ? js_parse(text, (size_t)bytes, path, index, err)
                 : err_set(err, ERR_USAGE,
                           "%s: damaged: its checksum is not the one in the marker; "
                           "resume from an older checkpoint",
                           path);
    close(fd);
    free(text);
    return rc;
}

int ckpt_index_load(const char *dir, struct js **index, struct err *err)
{
    char *path = xasprintf("%s/index.json", dir);
    int64_t want;
    int rc = ckpt_dir_checksum(dir, &want, err);

    if (rc == 0)
        rc = load_text(path, want, index, err);
    free(path);
    return rc;
}

static int check_model(const struct ckpt *c, const struct js *index, const char *path,
                       struct err *err)
{
    const struct js *model = js_get(index, "model");

    for (int i = 0; i < (int)ARRAY_LEN(shape_fields); i++) {
        const char *key = shape_fields[i].key;
        int want = shape_value(&c->recipe->model, i);
        int64_t has = js_get_int(model, key, -1);

        if (has != want)
            return err_set(err, ERR_USAGE,
                           "%s: the checkpoint has model.%s %lld, the recipe %d: it is "
                           "another model",
                           path, key, (long long)has, want);
    }
    return 0;
}

/* What decides which sample comes when. */
static int check_order(const struct ckpt *c, const struct js *index, const char *path,
                       struct err *err)
{
    const struct recipe *r = c->recipe;
    const struct {
        const char *key;
        int64_t want;
    } same[] = {
        { "seed", r->training.seed },
        { "seq_len", r->training.seq_len },
        { "global_batch_size", r->training.global_batch_size },
    };

    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        int64_t has = js_get_int(index, same[i].key, -1);

        if (has != same[i].want)
            return err_set(err, ERR_USAGE,
                           "%s: the checkpoint was trained with training.%s %lld, this "
                           "run has %lld: samples would repeat or be left out; set "
                           "training.%s: %lld",
                           path, same[i].key, (long long)has, (long long)same[i].want,
                           same[i].key, (long long)has);
    }
    return 0;
}

static int read_bias(const struct ckpt *c, const struct js *index, const char *path,
                     struct err *err)
{
    const struct js *bias = js_get(index, "router_bias");
    size_t n = (size_t)c->recipe->model.layers * (size_t)c->recipe->model.experts;

    if (js_len(bias) != n)
        return err_set(err, ERR_USAGE, "%s: router_bias has %zu numbers, not %zu", path,
                       js_len(bias), n);
    for (size_t i = 0; i < n; i++)
        c->bias[i] = (float)js_as_real(js_at(bias, i), 0);
    return 0;
}

int ckpt_index_read(const struct ckpt *c, const struct js *index, const char *path,
                    struct ckpt_at *at, int *shard, struct err *err)
{
    int64_t step = js_get_int(index, "step", -1), n = js_get_int(index, "shard", -1);

    if (step < 0 || n < 1 || n > INT32_MAX)
        return err_set(err, ERR_USAGE, "%s: not the index of a checkpoint", path);
    if (check_model(c, index, path, err) || check_order(c, index, path, err) ||
        read_bias(c, index, path, err))
        return -1;
    *at = (struct ckpt_at){ step, js_get_int(index, "tokens", 0) };
    *shard = (int)n;
    return 0;
}
