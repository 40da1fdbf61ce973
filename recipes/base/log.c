#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static enum log_level shown = LOG_INFO;
static char program[32] = "muster";

void log_set_level(enum log_level level)
{
    shown = level;
}

void log_set_prefix(const char *prefix)
{
    snprintf(program, sizeof(program), "%s", prefix);
}

static void log_line(const char *word, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
static void log_line(const char *word, const char *fmt, va_list ap)
{
    char *text = xvasprintf(fmt, ap);
    char *line = xasprintf("%s: %s%s\n", program, word, text);

    if (write(STDERR_FILENO, line, strlen(line)) < 0)
        shown = LOG_QUIET; /* nobody listens any more */
    free(line);
    free(text);
}

#define DEFINE_LOG(name, at, word)  \
    void name(const char *fmt, ...) \
    {                               \
        va_list ap;                 \
                                    \
        if (shown < (at))           \
            return;                 \
        va_start(ap, fmt);          \
        log_line(word, fmt, ap);    \
        va_end(ap);                 \
    }

DEFINE_LOG(log_warn, LOG_WARN, "warning: ")
DEFINE_LOG(log_info, LOG_INFO, "")
DEFINE_LOG(log_debug, LOG_DEBUG, "debug: ")
