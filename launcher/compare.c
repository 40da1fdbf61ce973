#include "launcher/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/candidate.h"
#include "recipes/recipe.h"

static const char *const names[] = { "same scale", "strong scaling", "weak scaling",
                                     "mixed scaling", "not comparable" };

const char *comparison_name(enum comparison c)
{
    return names[c];
}

/* What must be equal. */
static const char *const keys[] = {
    "model.layers",       "model.hidden",
    "model.heads",        "model.kv_heads",
    "model.head_dim",     "model.experts",
    "model.top_k",        "model.expert_ffn",
    "model.shared_ffn",   "model.vocab",
    "model.tied",         "training.seq_len",
    "training.dtype",     "training.deterministic",
    "training.steps",     "scale.trial_warmup",
    "data.document_mask", "cluster.device",
    "optimizer.name",
};

static void add_difference(struct strlist *why, const char *what, const char *a,
                           const char *b)
{
    char *text;

    if (str_eq(a, b))
        return;
    text = xasprintf("%s %s and %s", what, a, b);
    strlist_add(why, text);
    free(text);
}

static int read_recipe(const struct js *run, struct recipe *r, struct err *err)
{
    const char *id = js_str(run, "id", "?"), *text = js_str(run, "recipe", NULL);

    if (!text)
        return err_set(err, ERR_USAGE, "%s ran a command, not a recipe", id);
    return recipe_parse(text, strlen(text), id, r, err);
}

static enum comparison name_of(int64_t world_a, int64_t batch_a, int64_t world_b,
                               int64_t batch_b)
{
    if (world_a == world_b)
        return batch_a == batch_b ? COMPARE_SAME : COMPARE_MIXED;
    if (batch_a == batch_b)
        return COMPARE_STRONG;
    return batch_a * world_b == batch_b * world_a ? COMPARE_WEAK : COMPARE_MIXED;
}

static void compare_recipes(const struct recipe *a, const struct recipe *b,
                            struct strlist *why)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        char *x = recipe_get(a, keys[i]), *y = recipe_get(b, keys[i]);
        add_difference(why, keys[i], x, y);
        free(x);
        free(y);
    }
}

int compare_runs(const struct js *a, const struct js *b, enum comparison *out,
                 struct strlist *why, struct err *err)
{
    int64_t world_a = js_get_int(a, "world", 1), world_b = js_get_int(b, "world", 1);
    struct recipe ra, rb;

    if (read_recipe(a, &ra, err) < 0)
        return -1;
    if (read_recipe(b, &rb, err) < 0) {
        recipe_release(&ra);
        return -1;
    }
    compare_recipes(&ra, &rb, why);
    add_difference(why, "muster", js_str(js_get(a, "versions"), "muster", "?"),
                   js_str(js_get(b, "versions"), "muster", "?"));
    *out = name_of(world_a, candidate_global_batch(&ra, (int)world_a), world_b,
                   candidate_global_batch(&rb, (int)world_b));
    if (why->n)
        *out = COMPARE_NO;
    recipe_release(&ra);
    recipe_release(&rb);
    return 0;
}
