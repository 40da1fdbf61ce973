#include "recipes/value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct digits {
    int negative, base;
    const char *first; /* after sign and prefix */
};

static struct digits split_number(const char *text)
{
    struct digits d = { 0, 10, text };

    if (*d.first == '-' || *d.first == '+')
        d.negative = *d.first++ == '-';
    if (d.first[0] == '0' && (d.first[1] == 'x' || d.first[1] == 'o')) {
        d.base = d.first[1] == 'x' ? 16 : 8;
        d.first += 2;
    }
    return d;
}

static int leading_zero(const char *text, const char *digits, struct err *err)
{
    const char *rest = digits + strspn(digits, "0");

    if (digits[0] != '0' || !isdigit((unsigned char)digits[1]))
        return 0;
    return err_set(err, ERR_USAGE,
                   "'%s' has an ambiguous leading zero: write %s%s, or 0o%s for octal",
                   text, text[0] == '-' ? "-" : "", *rest ? rest : "0",
                   *rest ? rest : "0");
}

static int not_a(const char *what, const char *text, struct err *err)
{
    struct str plain = STR_INIT;

    if (!strchr(text, '_'))
        return err_set(err, ERR_USAGE, "'%s' is not %s", text, what);
    for (const char *p = text; *p; p++)
        if (*p != '_')
            str_add(&plain, p, 1);
    err_set(err, ERR_USAGE, "'%s' is not %s: write it without _ (%s)", text, what,
            plain.text ? plain.text : "0");
    str_release(&plain);
    return -1;
}

/* Sign and magnitude of a whole number. */
static int whole(const char *text, int *negative, uint64_t *magnitude, struct err *err)
{
    struct digits d = split_number(text);
    char *end;

    if (!isxdigit((unsigned char)*d.first))
        return not_a("a whole number", text, err);
    if (d.base == 10 && leading_zero(text, d.first, err) < 0)
        return -1;
    errno = 0;
    *magnitude = strtoull(d.first, &end, d.base);
    if (*end || (d.base != 10 && d.first != text + 2)) /* 0x and 0o take no sign */
        return not_a("a whole number", text, err);
    if (errno == ERANGE)
        return err_set(err, ERR_USAGE, "'%s' does not fit in 64 bits", text);
    *negative = d.negative;
    return 0;
}

int value_uint64(const char *text, uint64_t *out, struct err *err)
{
    uint64_t m = 0;
    int negative = 0;

    if (whole(text, &negative, &m, err) < 0)
        return -1;
    if (negative && m)
        return err_set(err, ERR_USAGE, "'%s' is negative", text);
    *out = m;
    return 0;
}

int value_int64(const char *text, int64_t *out, struct err *err)
{
    uint64_t m = 0;
    int negative = 0;

    if (whole(text, &negative, &m, err) < 0)
        return -1;
    if (m > (uint64_t)INT64_MAX + (uint64_t)negative)
        return err_set(err, ERR_USAGE, "'%s' does not fit in 64 bits with a sign",
                       text);
    *out = negative ? (int64_t)(0 - m) : (int64_t)m;
    return 0;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?   (YAML 1.2) */
static int is_real(const char *p)
{
    size_t before, after = 0;

    p += *p == '-' || *p == '+';
    before = strspn(p, "0123456789");
    p += before;
    if (*p == '.') {
        after = strspn(p + 1, "0123456789");
        p += 1 + after;
    }
    if (before + after == 0)
        return 0;
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '-' || *p == '+';
        if (!isdigit((unsigned char)*p))
            return 0;
        p += strspn(p, "0123456789");
    }
    return *p == '\0';
}

static int special_real(const char *text, double *out)
{
    static const char *const inf[] = { ".inf", ".Inf", ".INF" };
    static const char *const nans[] = { ".nan", ".NaN", ".NAN" };
    int sign = *text == '-' || *text == '+';

    for (size_t i = 0; i < ARRAY_LEN(inf); i++) {
        if (str_eq(text + sign, inf[i])) {
            *out = *text == '-' ? -HUGE_VAL : HUGE_VAL;
            return 1;
        }
        if (str_eq(text, nans[i])) {
            *out = nan("");
            return 1;
        }
    }
    return 0;
}

int value_real(const char *text, double *out, struct err *err)
{
    const char *digits = text + (*text == '-' || *text == '+');
    double v;

    if (special_real(text, out))
        return 0;
    if (!is_real(text))
        return not_a("a number", text, err);
    if (leading_zero(text, digits, err) < 0)
        return -1;
    errno = 0;
    v = strtod(text, NULL);
    if (errno == ERANGE)
        return err_set(err, ERR_USAGE, "'%s' is out of range of a 64-bit float", text);
    *out = v;
    return 0;
}

int value_bool(const char *text, int *out, struct err *err)
{
    static const char *const words[][3] = {
        { "false", "False", "FALSE" }, { "true", "True", "TRUE" }, { "no", "No", "NO" },
        { "yes", "Yes", "YES" },       { "off", "Off", "OFF" },    { "on", "On", "ON" },
    };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        for (int k = 0; k < 3; k++)
            if (str_eq(text, words[i][k])) {
                *out = (int)(i & 1);
                return 0;
            }
    return err_set(err, ERR_USAGE, "'%s' is not true or false", text);
}

int value_mode(const char *text, int *out, struct err *err)
{
    const char *digits = text + (strncmp(text, "0o", 2) == 0 ? 2 : 0);
    size_t n = strspn(digits, "01234567");
    unsigned long v;

    if (n == 0 || digits[n])
        return err_set(err, ERR_USAGE, "'%s' is not a file mode (octal, such as 0755)",
                       text);
    errno = 0;
    v = strtoul(digits, NULL, 8);
    if (errno || v > 07777)
        return err_set(err, ERR_USAGE, "'%s' is above the largest file mode, 07777",
                       text);
    *out = (int)v;
    return 0;
}

/* 0 when no unit has that name. */
static double unit_bytes(const char *unit)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        { "", 1 },         { "B", 1 },        { "kB", 1e3 },     { "KB", 1e3 },
        { "MB", 1e6 },     { "GB", 1e9 },     { "TB", 1e12 },    { "PB", 1e15 },
        { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 },
        { "PiB", 0x1p50 },
    };

    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (str_eq(unit, units[i].name))
            return units[i].bytes;
    return 0;
}

int value_size(const char *text, int64_t *bytes, struct err *err)
{
    size_t n = strspn(text, "+-.0123456789_");
    char *number = xstrndup(text, n);
    const char *unit = text + n + strspn(text + n, " ");
    double scale = unit_bytes(unit), v = 0;
    int64_t exact = -1;
    int rc;

    if (scale == 1 && !strchr(number, '.')) { /* exact above 2^53 too */
        rc = value_int64(number, &exact, err);
    } else {
        rc = value_real(number, &v, err);
        v *= scale;
        if (v >= 0 && v < 0x1p63 && v == floor(v))
            exact = (int64_t)v;
    }
    free(number);
    if (scale == 0)
        return err_set(err, ERR_USAGE, "'%s' is not a size (such as 64MiB or 80GB)",
                       text);
    if (rc < 0)
        return err_wrap(err, "size '%s'", text);
    if (exact < 0)
        return err_set(err, ERR_USAGE,
                       "size '%s' is not a whole, positive number of bytes", text);
    *bytes = exact;
    return 0;
}

struct clock {
    int64_t part[3]; /* between the colons */
    int n;
};

/* "H:M:S" and its shorter forms; digits only. */
static int read_clock(const char *text, struct clock *c)
{
    char *end;

    for (c->n = 0; c->n < 3;) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 9)
            return -1;
        c->part[c->n++] = strtoll(text, &end, 10);
        if (!*end)
            return 0;
        if (*end != ':')
            return -1;
        text = end + 1;
    }
    return -1;
}

static int64_t suffix_seconds(const char *text)
{
    static const struct {
        char suffix;
        int seconds;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 9 || !text[digits] || text[digits + 1])
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (text[digits] == units[i].suffix)
            return strtoll(text, NULL, 10) * units[i].seconds;
    return -1;
}

static int not_a_duration(const char *text, struct err *err)
{
    return err_set(err, ERR_USAGE,
                   "'%s' is not a duration (minutes, minutes:seconds, "
                   "hours:minutes:seconds, days-hours:minutes:seconds, or 90s)",
                   text);
}

int value_duration(const char *text, int64_t *seconds, struct err *err)
{
    const char *dash = strchr(text, '-');
    struct clock days = { { 0 }, 0 }, c;
    char *front;
    int rc = 0;

    if (suffix_seconds(text) >= 0) {
        *seconds = suffix_seconds(text);
        return 0;
    }
    if (dash) {
        front = xstrndup(text, (size_t)(dash - text));
        rc = read_clock(front, &days) < 0 || days.n != 1 ? -1 : 0;
        free(front);
    }
    if (rc < 0 || read_clock(dash ? dash + 1 : text, &c) < 0)
        return not_a_duration(text, err);
    /* Without days one part is minutes and two are minutes:seconds; with days
     * one is hours and two are hours:minutes. */
    if (dash)
        c = (struct clock){
            { c.part[0], c.n > 1 ? c.part[1] : 0, c.n > 2 ? c.part[2] : 0 }, 3
        };
    else if (c.n < 3)
        c = (struct clock){ { 0, c.part[0], c.n > 1 ? c.part[1] : 0 }, 3 };
    *seconds = ((days.part[0] * 24 + c.part[0]) * 60 + c.part[1]) * 60 + c.part[2];
    return 0;
}

int value_word(const char *text, const char *const *words, int n, int *out,
               struct err *err)
{
    struct str list = STR_INIT;
    const char *near;

    for (int i = 0; i < n; i++) {
        if (str_eq(text, words[i])) {
            *out = i;
            str_release(&list);
            return 0;
        }
        str_addf(&list, "%s%s", i ? ", " : "", words[i]);
    }
    near = str_nearest(text, words, n);
    err_set(err, ERR_USAGE, "'%s' is none of: %s%s%s%s", text, list.text,
            near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    str_release(&list);
    return -1;
}

const char *value_real_text(double v, char buf[40])
{
    if (!isfinite(v)) {
        snprintf(buf, 40, "%s", isnan(v) ? ".nan" : v < 0 ? "-.inf" : ".inf");
        return buf;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, 40, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    return buf;
}
