#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
    if (!p)
        abort(); /* out of memory for a control structure: nothing sane is left */
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    return must(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        abort();
    return must(realloc(p, bytes ? bytes : 1));
}

char *xstrdup(const char *s)
{
    return s ? must(strdup(s)) : NULL;
}

char *xstrndup(const char *s, size_t n)
{
    return must(strndup(s, n));
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *text = NULL;

    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    return text;
}

char *xasprintf(const char *fmt, ...)
{
    char *text;
    va_list ap;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    return text;
}
