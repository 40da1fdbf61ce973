#include "launcher/secret_recipe.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/secret.h"
#include "recipes/recipe.h"

static void clean(struct strlist *words)
{
    struct strlist out = { 0 };
    char **argv = xcalloc((size_t)words->n + 1, sizeof(*argv));

    for (int i = 0; i < words->n; i++)
        argv[i] = words->item[i];
    secret_clean_command(argv, &out);
    free(argv);
    strlist_release(words);
    *words = out;
}

char *secret_recipe_text(const struct recipe *r)
{
    struct recipe copy;
    char *text;

    recipe_copy(&copy, r);
    clean(&copy.cluster.slurm_env);
    clean(&copy.cluster.slurm_args);
    clean(&copy.cluster.slurm_setup);
    text = recipe_text(&copy);
    recipe_release(&copy);
    return text;
}

static int check(const char *key, const struct strlist *words, const char *path,
                 struct err *err)
{
    for (int i = 0; i < words->n; i++)
        if (strstr(words->item[i], SECRET_HIDDEN))
            return err_set(err, ERR_USAGE,
                           "%s: %s: '%s': the secret was taken out when this copy was "
                           "saved: start from your own recipe, or write ${NAME} for it",
                           path, key, words->item[i]);
    return 0;
}

int secret_recipe_check(const struct recipe *r, const char *path, struct err *err)
{
    return check("cluster.slurm.env", &r->cluster.slurm_env, path, err) < 0 ||
                   check("cluster.slurm.args", &r->cluster.slurm_args, path, err) < 0 ||
                   check("cluster.slurm.setup", &r->cluster.slurm_setup, path, err) < 0
               ? -1
               : 0;
}
