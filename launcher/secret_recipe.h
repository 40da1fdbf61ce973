/* secret_recipe.h - recipes as they are kept and sent: without the secrets in them.
 *
 * What the launcher alone needs (cluster.slurm.env, .args and .setup) is redacted by the
 * rules of secret.h; ranks read such a copy.  True values stay in a batch job's recipe,
 * which starts from it, and in a climb's entry in the store, which goes on from it. */
#ifndef LAUNCHER_SECRET_RECIPE_H
#define LAUNCHER_SECRET_RECIPE_H

struct err;
struct recipe;

/* recipe_text() of such a copy; the caller's to free(). */
char *secret_recipe_text(const struct recipe *r);

/* ERR_USAGE: this is such a copy, and ranks would get the mark for a value. */
int secret_recipe_check(const struct recipe *r, const char *path, struct err *err);

#endif
