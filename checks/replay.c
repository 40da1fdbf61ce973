#include "checks/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/host.h"
#include "checks/measure.h"
#include "checks/replay_smi.h"
#include "recipes/yaml.h"

enum { MAX_BYTES = 256 << 20 };

/* --- events ------------------------------------------------------------------------ */

static int is_events(const char *text)
{
    return *text == '{';
}

static int add_event(const char *line, const char *where, struct measures *out,
                     struct err *err)
{
    struct js *o;
    int rc = 0;

    if (js_parse(line, strlen(line), where, &o, err))
        return -1;
    if (str_eq(js_str(o, "event", ""), "measure") && measures_add_json(out, o, err))
        rc = err_wrap(err, "%s", where);
    js_free(o);
    return rc;
}

/* --- rails ---------------------------------------------------------------------------- */

static int is_rails(const char *text)
{
    return strstr(text, "Gb/s") != NULL || strchr(text, '\t') != NULL;
}

static int take_rate(const char *text, double *v)
{
    char *end;

    *v = text ? strtod(text, &end) : NAN;
    return text && end != text && *end == '\0' && isfinite(*v) && *v >= 0 ? 0 : -1;
}

static int add_rail(const char *line, const char *where, struct measures *out,
                    struct err *err)
{
    char *copy = xstrdup(line), *save, *node = strtok_r(copy, " \t", &save);
    char *nic = node ? strtok_r(NULL, " \t", &save) : NULL;
    double rate, port;
    int rc = -1;

    if (!nic || take_rate(strtok_r(NULL, " \t", &save), &rate) ||
        take_rate(strtok_r(NULL, " \t", &save), &port) || port == 0 ||
        strtok_r(NULL, " \t", &save)) {
        err_set(err, ERR_USAGE,
                "%s: not a row of node, NIC, measured Gb/s, port Gb/s: '%s'", where,
                line);
    } else {
        char *object = xasprintf("%s %s", node, nic);

        measure_set(measures_add(out, "nic", object, node), rate, port, "Gb/s");
        free(object);
        rc = 0;
    }
    free(copy);
    return rc;
}

/* --- all ---------------------------------------------------------------------------------- */

static const struct {
    int (*fits)(const char *text);
    int (*add)(const char *line, const char *where, struct measures *out,
               struct err *err);
} formats[] = {
    { is_events, add_event },
    { is_rails, add_rail },
};

static int add_lines(char *text, const char *path, size_t format, struct measures *out,
                     struct err *err)
{
    int number = 0;

    for (char *line = text, *next; line; line = next) {
        char *where, *end = strchr(line, '\n');
        int rc;

        next = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        line[strcspn(line, "\r")] = '\0';
        number++;
        if (line[strspn(line, " \t")] == '\0' || *line == '#')
            continue;
        where = xasprintf("%s:%d", path, number);
        rc = formats[format].add(line, where, out, err);
        free(where);
        if (rc)
            return -1;
    }
    return 0;
}

static int add_smi(const char *text, const char *path, struct measures *out,
                   struct err *err)
{
    struct smi s = { 0 };
    int rc = smi_read(&s, text, path, err);

    if (rc == 0)
        smi_measure(&s, out);
    smi_release(&s);
    return rc;
}

static int add_text(char *text, const char *path, struct measures *out, struct err *err)
{
    double soft, hard;

    if (host_limit(text, "Max locked memory", &soft, &hard) == 0) {
        host_measure_limits(text, 1, 1, path, out);
        for (int i = 0; i < out->n; i++)
            *out->item[i].node = '\0'; /* the file names no machine */
        return 0;
    }
    if (smi_fits(text))
        return add_smi(text, path, out, err);
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (formats[i].fits(text))
            return add_lines(text, path, i, out, err);
    return err_set(
        err, ERR_USAGE,
        "%s: no recording that --replay knows: events of a check "
        "(events.jsonl), a table of rails, /proc/PID/limits, or what nvidia-smi "
        "printed (-q, -L, --query-gpu with a header)",
        path);
}

int replay_text(char *text, const char *path, struct measures *out, struct err *err)
{
    int before = out->n;

    if (add_text(text, path, out, err))
        return -1;
    if (out->n == before)
        return err_set(err, ERR_USAGE, "%s: no measurement in it", path);
    return 0;
}

int replay_load(const char *path, struct measures *out, struct err *err)
{
    char *text;
    size_t n;
    int rc;

    if (yaml_read_file(path, MAX_BYTES, &text, &n, err))
        return -1;
    rc = replay_text(text, path, out, err);
    free(text);
    return rc;
}
