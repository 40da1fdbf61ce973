/* env.h - an environment: NAME=VALUE strings whose bytes stay as they are.
 *
 * A copy of `environ` keeps every string byte for byte: commas, blanks, quotes,
 * non-ASCII bytes and values that are set but empty (case C15). */
#ifndef LAUNCHER_ENV_H
#define LAUNCHER_ENV_H

struct env {
    char **item; /* [n + 1], the last is NULL: ready for execve(); owned */
    int n;
};

#define ENV_INIT \
    {            \
        0, 0     \
    }

void env_copy(struct env *to, char *const *from); /* `from` ends with NULL */
void env_release(struct env *e);

const char *env_get(const struct env *e, const char *name); /* borrowed, or NULL */
/* Replaces the first NAME and removes others of that name. */
void env_set(struct env *e, const char *name, const char *value);
void env_setf(struct env *e, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Only when NAME is not set (set but empty counts as set). */
void env_default(struct env *e, const char *name, const char *value);
/* Remove every variable whose name begins with `prefix`. */
void env_drop(struct env *e, const char *prefix);

#endif
