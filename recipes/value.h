/* value.h - text to typed values, by the type that is wanted.
 *
 * YAML 1.2 core scalars, nothing else: on/off/yes/no are truths only where a
 * truth is wanted, 30:00 is a duration only where a duration is wanted.
 * `1_000` and an ambiguous leading zero (010) are errors in every number.
 *
 * Each returns 0, or -1 with a message that begins with the text ("'010' has an
 * ambiguous leading zero: write 10, or 0o10 for octal"); callers put the place
 * before it with err_wrap().  Code ERR_USAGE.  *out is set only on success. */
#ifndef RECIPES_VALUE_H
#define RECIPES_VALUE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;

/* Decimal with a sign, 0x1F, 0o17. */
int value_int64(const char *text, int64_t *out, struct err *err);
int value_uint64(const char *text, uint64_t *out, struct err *err);

/* 1e-5, 1., .5, +3, .inf, -.Inf, .nan; an integer is a number too.  What a
 * double cannot hold (61e9540) is an error. */
int value_real(const char *text, double *out, struct err *err);

/* true false yes no on off, in lower, Title or UPPER case. */
int value_bool(const char *text, int *out, struct err *err);

/* File modes: octal with or without 0 or 0o in front, up to 07777. */
int value_mode(const char *text, int *out, struct err *err);

/* "4096", "64MiB", "1.5GiB", "80GB", "64 MiB": bytes.  B, kB MB GB TB PB are powers
 * of 1000, KiB MiB GiB TiB PiB of 1024.  Must come out whole and not negative. */
int value_size(const char *text, int64_t *bytes, struct err *err);

/* Slurm's grammar: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
 * days-hours:minutes, days-hours:minutes:seconds; or 90s, 5m, 2h, 1d. */
int value_duration(const char *text, int64_t *seconds, struct err *err);

/* Index of text in words[n]; the message lists them and suggests one. */
int value_word(const char *text, const char *const *words, int n, int *out,
               struct err *err);

/* The shortest decimal that reads back as v, as YAML 1.2; buf of 40. */
const char *value_real_text(double v, char buf[40]);

#ifdef __cplusplus
}
#endif
#endif
