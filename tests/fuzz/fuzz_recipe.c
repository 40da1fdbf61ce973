/* The recipe reader: no input may crash it, and what it accepts must print to
 * text that it reads back the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "recipes/recipe.h"
#include "recipes/value.h"
#include "recipes/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct recipe *r)
{
    char *text = recipe_text(r), *again;
    struct err err = ERR_INIT;
    struct recipe back;

    if (recipe_parse(text, strlen(text), "printed", &back, &err) < 0)
        abort();
    again = recipe_text(&back);
    if (strcmp(text, again) != 0)
        abort();
    recipe_release(&back);
    free(text);
    free(again);
}

static void lay_out(const struct recipe *r)
{
    static const int worlds[] = { 1, 2, 7, 16, 512, INT32_MAX };
    struct err err = ERR_INIT;
    int s, p, a;

    for (size_t i = 0; i < ARRAY_LEN(worlds); i++) {
        if (recipe_layout(r, worlds[i], &s, &p, &a, &err) == 0 &&
            ((int64_t)s * p != worlds[i] || a < 1))
            abort();
        err_release(&err);
    }
    if (model_params_total(&r->model) < model_params_active(&r->model))
        abort();
}

static void read_values(const char *text)
{
    static const char *const words[] = { "none", "selective", "full" };
    struct err err = ERR_INIT;
    uint64_t u;
    int64_t i;
    double d;
    int n;

    value_int64(text, &i, &err);
    value_uint64(text, &u, &err);
    value_real(text, &d, &err);
    value_bool(text, &n, &err);
    value_mode(text, &n, &err);
    value_word(text, words, 3, &n, &err);
    if (value_size(text, &i, &err) == 0 && i < 0)
        abort();
    if (value_duration(text, &i, &err) == 0 && i < 0)
        abort();
    err_release(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);
    struct yaml_node *root = NULL;
    struct err err = ERR_INIT;
    struct recipe r;

    if (recipe_parse((const char *)data, size, "fuzz", &r, &err) == 0) {
        round_trip(&r);
        lay_out(&r);
        recipe_release(&r);
    } else if (!err.text || !*err.text) {
        abort();
    }
    err_release(&err);
    if (yaml_tree_parse((const char *)data, size, "fuzz", &root, &err) == 0)
        yaml_tree_free(root);
    if (size < 64)
        read_values(text);
    err_release(&err);
    free(text);
    return 0;
}
