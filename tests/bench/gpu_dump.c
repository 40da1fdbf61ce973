/* gpu_dump - what a recipe starts from and reads, for another trainer to do the same.
 *
 *   gpu_dump RECIPE OUT   a safetensors file: weight.NAME (initial, FP32), tokens
 *                         [steps x samples a step, seq_len + 1], lr [steps] */
#include <stdio.h>
#include <stdlib.h>

#include "recipes/recipe.h"
#include "trainer/data.h"
#include "trainer/golden_file.h"
#include "trainer/optim.h"
#include "trainer/units.h"
#include "trainer/weights.h"

enum { MAX_TENSORS = 4096 };

static void check(int rc, const struct err *err)
{
    if (!rc)
        return;
    fprintf(stderr, "gpu_dump: %s\n", err_text(err));
    exit((int)err->code);
}

static int32_t *batches(const struct recipe *r)
{
    int64_t G = r->training.global_batch_size, S = r->training.seq_len;
    int32_t *out = xcalloc((size_t)(r->training.steps * G * (S + 1)), sizeof(*out));
    struct err err = ERR_INIT;
    struct dataset *d;

    check(dataset_open(r, 1, 0, &d, &err), &err);
    for (int64_t step = 0; step < r->training.steps; step++)
        for (int64_t g = 0; g < G; g++)
            check(dataset_sample(d, step, g, out + (step * G + g) * (S + 1), NULL, NULL,
                                 &err),
                  &err);
    dataset_close(d);
    return out;
}

static int list(const struct units *u, struct st_tensor *t)
{
    int n = 0;

    for (int unit = 0; unit < u->n; unit++) {
        const struct unit_layout *l = units_at(u, unit);

        for (int i = 0; i < l->n; i++) {
            char name[128];

            golden_name(name, sizeof(name), "weight", unit, l->kind, l->tensor[i].name);
            t[n] = (struct st_tensor){ .name = xstrdup(name),
                                       .type = ST_F32,
                                       .dims = l->tensor[i].dims };
            memcpy(t[n++].shape, l->tensor[i].shape, sizeof(l->tensor[i].shape));
        }
    }
    return n;
}

static void write_weights(struct st_writer *w, const struct units *u,
                          const struct recipe *r)
{
    struct err err = ERR_INIT;
    int n = 0;

    for (int unit = 0; unit < u->n; unit++) {
        const struct unit_layout *l = units_at(u, unit);
        float *whole = xcalloc((size_t)l->padded, sizeof(*whole));

        weights_fill(u, unit, (uint64_t)r->training.seed, 0, l->padded, whole);
        for (int i = 0; i < l->n; i++)
            check(st_write(w, n++, 0, whole + l->tensor[i].offset,
                           l->tensor[i].count * 4, &err),
                  &err);
        free(whole);
    }
}

int main(int argc, char **argv)
{
    static struct st_tensor t[MAX_TENSORS];
    struct err err = ERR_INIT;
    struct st_writer *w;
    struct recipe r;
    struct units u;
    struct js *meta;
    int32_t *tokens;
    float *lr;
    int n;

    if (argc != 3) {
        fprintf(stderr, "usage: gpu_dump RECIPE OUT\n");
        return 2;
    }
    check(recipe_load(argv[1], &r, &err), &err);
    units_make(&r.model, 1, &u);
    tokens = batches(&r);
    lr = xcalloc((size_t)r.training.steps, sizeof(*lr));
    for (int64_t i = 0; i < r.training.steps; i++)
        lr[i] = (float)optim_lr_at(&r, i + 1);
    n = list(&u, t);
    t[n] =
        (struct st_tensor){ .name = xstrdup("tokens"),
                            .type = ST_I32,
                            .dims = 2,
                            .shape = { r.training.steps * r.training.global_batch_size,
                                       r.training.seq_len + 1 } };
    t[n + 1] = (struct st_tensor){
        .name = xstrdup("lr"), .type = ST_F32, .dims = 1, .shape = { r.training.steps }
    };
    meta = golden_meta(&r.model, (int)r.training.global_batch_size, r.training.seq_len);
    check(st_create(argv[2], t, n + 2, meta, &w, &err), &err);
    write_weights(w, &u, &r);
    check(st_write(w, n, 0, tokens, st_shape_bytes(ST_I32, 2, t[n].shape), &err), &err);
    check(st_write(w, n + 1, 0, lr, r.training.steps * 4, &err), &err);
    check(st_commit(w, &err), &err);
    js_free(meta);
    free(tokens);
    free(lr);
    recipe_release(&r);
    return 0;
}
