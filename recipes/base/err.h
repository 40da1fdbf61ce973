/* err.h - how a function tells its caller what went wrong.
 *
 * A function that can fail returns 0 or -1 (or a pointer or NULL) and takes a
 * `struct err *err` as its last argument.  The rules:
 *
 *   - on success *err is untouched, so one err serves a chain of calls, and
 *     outputs are set only on success;
 *   - whoever detects the failure sets it, once, with err_set();
 *   - callers may add context with err_wrap(), which prefixes;
 *   - library code never prints and never exits; only main() does.
 *
 * The message is a sentence: the object (file:line, host, device, rank), the
 * cause, the cure.  It is kept whole, however long.  err may be NULL.
 *
 * Ownership: initialise with ERR_INIT; err_release() frees the text.
 * A second err_set() on the same err replaces the first. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

#ifdef __cplusplus /* .cu files include this */
extern "C" {
#endif

/* What the caller may branch on; also the process exit status. */
enum err_code {
    ERR_NONE = 0,
    ERR_FAILED = 1,  /* it ran, and the answer is no (a check, a run) */
    ERR_USAGE = 2,   /* bad command line, recipe or file: fix the input */
    ERR_MISSING = 3, /* a file, tool, device or build feature is absent */
    ERR_SYSTEM = 4,  /* a system call or library failed */
    ERR_TIMEOUT = 5, /* a deadline passed */
};

struct err {
    enum err_code code;
    char *text; /* owned; NULL when code is ERR_NONE */
};

#define ERR_INIT    \
    {               \
        ERR_NONE, 0 \
    }

/* Record a failure.  The value is -1, and the compiler can see that it is. */
#define err_set(err, code, ...) (err_record(err, code, __VA_ARGS__), err_minus_one())
void err_record(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prefix the recorded message: "<context>: <what it said>".  The value is -1. */
#define err_wrap(err, ...) (err_prefix(err, __VA_ARGS__), err_minus_one())
void err_prefix(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Append one more problem on a line of its own (all problems of a file are
 * listed at once).  Sets code if none is set yet.  The value is -1. */
#define err_more(err, code, ...) (err_append(err, code, __VA_ARGS__), err_minus_one())
void err_append(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The text, never NULL. */
const char *err_text(const struct err *err);

/* Free the text and reset to ERR_INIT. */
void err_release(struct err *err);

static inline int err_minus_one(void)
{
    return -1;
}

#ifdef __cplusplus
}
#endif
#endif
