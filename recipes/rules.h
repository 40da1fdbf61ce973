/* rules.h - what must hold across the keys of a recipe.
 *
 * Inside recipes/ only.  Every broken rule is reported with the key to blame,
 * so that a reader of a file can say on which line it stands. */
#ifndef RECIPES_RULES_H
#define RECIPES_RULES_H

struct model;
struct recipe;

struct rules {
    void (*broken)(void *arg, const char *key, const char *text);
    void *arg;
    int n; /* broken ones so far */
};

void rules_break(struct rules *rules, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void rules_check_model(struct rules *rules, const struct model *m);
void rules_check_recipe(struct rules *rules, const struct recipe *r);

#endif
