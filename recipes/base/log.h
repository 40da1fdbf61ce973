/* log.h - progress and warnings of the running program, to stderr.
 *
 * Not for failures: those travel in struct err to main().  Not for results:
 * those go to stdout.  Each call writes one whole line in one write(). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_QUIET, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level); /* default LOG_INFO */
void log_set_prefix(const char *prefix);  /* "muster"; copied */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
