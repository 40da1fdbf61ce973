#include "launcher/env.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void append(struct env *e, char *owned)
{
    e->item = xrealloc(e->item, (size_t)e->n + 2, sizeof(*e->item));
    e->item[e->n++] = owned;
    e->item[e->n] = NULL;
}

void env_copy(struct env *to, char *const *from)
{
    int n = 0;

    while (from[n])
        n++;
    to->item = xcalloc((size_t)n + 1, sizeof(*to->item));
    to->n = n;
    for (int i = 0; i < n; i++)
        to->item[i] = xstrdup(from[i]);
}

void env_release(struct env *e)
{
    for (int i = 0; i < e->n; i++)
        free(e->item[i]);
    free(e->item);
    *e = (struct env)ENV_INIT;
}

/* Environments are read entry by entry for every name of every rank: the first byte
 * decides most. */
static int find(const struct env *e, const char *name, int from)
{
    size_t n = strlen(name);

    for (int i = from; i < e->n; i++)
        if (e->item[i][0] == name[0] && strncmp(e->item[i], name, n) == 0 &&
            e->item[i][n] == '=')
            return i;
    return -1;
}

static void remove_at(struct env *e, int i)
{
    free(e->item[i]);
    e->n--;
    for (; i <= e->n; i++)
        e->item[i] = e->item[i + 1];
}

const char *env_get(const struct env *e, const char *name)
{
    int i = find(e, name, 0);

    return i < 0 ? NULL : e->item[i] + strlen(name) + 1;
}

void env_set(struct env *e, const char *name, const char *value)
{
    char *item = xasprintf("%s=%s", name, value);
    int at = find(e, name, 0);

    if (at < 0) {
        append(e, item);
        return;
    }
    free(e->item[at]);
    e->item[at] = item;
    for (int i = find(e, name, at + 1); i >= 0; i = find(e, name, at + 1))
        remove_at(e, i);
}

void env_setf(struct env *e, const char *name, const char *fmt, ...)
{
    char *value;
    va_list ap;

    va_start(ap, fmt);
    value = xvasprintf(fmt, ap);
    va_end(ap);
    env_set(e, name, value);
    free(value);
}

void env_default(struct env *e, const char *name, const char *value)
{
    if (!env_get(e, name))
        env_set(e, name, value);
}

void env_drop(struct env *e, const char *prefix)
{
    size_t n = strlen(prefix);

    for (int i = e->n - 1; i >= 0; i--)
        if (e->item[i][0] == prefix[0] && strncmp(e->item[i], prefix, n) == 0)
            remove_at(e, i);
}
