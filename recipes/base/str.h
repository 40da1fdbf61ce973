/* str.h - a growing string, and the few string helpers everybody needs.
 *
 *   struct str s = STR_INIT;
 *   str_addf(&s, "rank %d", r);
 *   ... s.text ...              valid until the next call; never NULL after one
 *   str_release(&s);  or  char *mine = str_take(&s);   the caller's to free() */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct str {
    char *text;
    size_t len, room;
};

#define STR_INIT \
    {            \
        0, 0, 0  \
    }

void str_add(struct str *s, const char *bytes, size_t n);
void str_adds(struct str *s, const char *text);
void str_addf(struct str *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
char *str_take(struct str *s);
void str_clear(struct str *s); /* keep the room */
void str_release(struct str *s);

/* A list of owned strings. */
struct strlist {
    char **item;
    int n;
};

void strlist_add(struct strlist *l, const char *text); /* copies */
void strlist_copy(struct strlist *to, const struct strlist *from);
void strlist_release(struct strlist *l);

/* Case-sensitive equality; NULL equals nothing. */
int str_eq(const char *a, const char *b);

/* "s" unless n is 1: "%d rank%s". */
static inline const char *str_s(long long n)
{
    return n == 1 ? "" : "s";
}

/* The name of names[n] nearest to `word` (edit distance at most 3, and less
 * than the word's length), or NULL.  For "did you mean". */
const char *str_nearest(const char *word, const char *const *names, int n);

#ifdef __cplusplus
}
#endif
#endif
