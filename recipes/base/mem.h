/* mem.h - small host allocations; they abort when memory is gone.
 *
 * For control structures.  Tensors, files and anything sized by a recipe or by
 * outside bytes go through malloc() or the device and report ERR_SYSTEM.
 * Every result is the caller's to free(). */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *xcalloc(size_t n, size_t size);           /* zeroed */
void *xrealloc(void *p, size_t n, size_t size); /* overflow checked */
char *xstrdup(const char *s);                   /* NULL gives NULL */
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#ifdef __cplusplus
}
#endif
#endif
