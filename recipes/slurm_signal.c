#include "recipes/slurm_signal.h"

#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"

/* Digits of text[n] as a number of at most `max`; -1 otherwise. */
static int read_number(const char *text, size_t n, int max)
{
    int v = 0;

    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i]))
            return -1;
        v = v * 10 + (text[i] - '0');
        if (v > max)
            return -1;
    }
    return n ? v : -1;
}

static int read_signal(const char *text, size_t n)
{
    int number = read_number(text, n, 64);

    if (number > 0 || (n && isdigit((unsigned char)*text)))
        return number > 0 ? number : -1;
    if (n > 3 && strncasecmp(text, "SIG", 3) == 0) {
        text += 3;
        n -= 3;
    }
    for (int i = 1; i < 32; i++) {
        const char *name = sigabbrev_np(i);
        if (name && strlen(name) == n && strncasecmp(name, text, n) == 0)
            return i;
    }
    return -1;
}

/* "R:", "B:", "RB:"; returns its length, -1 for other letters. */
static int read_flags(const char *text, struct slurm_signal *s)
{
    const char *colon = strchr(text, ':');

    if (!colon)
        return 0;
    for (const char *c = text; c < colon; c++) {
        if (toupper((unsigned char)*c) == 'R')
            s->reservation = 1;
        else if (toupper((unsigned char)*c) == 'B')
            s->batch_shell = 1;
        else
            return -1;
    }
    return colon == text ? -1 : (int)(colon - text) + 1;
}

int slurm_signal_parse(const char *text, struct slurm_signal *out, struct err *err)
{
    struct slurm_signal s = { .before_s = 60 };
    int flags = read_flags(text, &s);
    const char *name = text + (flags > 0 ? flags : 0), *at = strchr(name, '@');
    size_t n = at ? (size_t)(at - name) : strlen(name);

    if (flags < 0)
        return err_set(err, ERR_USAGE,
                       "--signal '%.60s': before ':' stand R and B ([{R|B}:]SIG[@sec])",
                       text);
    s.number = read_signal(name, n);
    if (s.number < 0)
        return err_set(err, ERR_USAGE,
                       "--signal '%.60s': no signal '%.*s' (a name like USR1, or 1 to "
                       "64)",
                       text, (int)(n < 40 ? n : 40), name);
    if (at)
        s.before_s = read_number(at + 1, strlen(at + 1), 65535);
    if (s.before_s < 0)
        return err_set(err, ERR_USAGE,
                       "--signal '%.60s': behind @ stand 0 to 65535 seconds", text);
    *out = s;
    return 0;
}

void slurm_signal_add(struct str *out, const struct slurm_signal *s)
{
    const char *name = sigabbrev_np(s->number);

    str_addf(out, "%s%s%s", s->reservation ? "R" : "", s->batch_shell ? "B" : "",
             s->reservation || s->batch_shell ? ":" : "");
    if (name)
        str_addf(out, "%s@%d", name, s->before_s);
    else
        str_addf(out, "%d@%d", s->number, s->before_s);
}
