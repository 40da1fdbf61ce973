#include "topology/ibnet.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

/* A cable as one record lists it. */
struct listed {
    uint64_t guid[2];
    int port[2];
    double gbits_per_s;
};

struct reader {
    const char *where;
    int line;
    uint64_t guid; /* of the record; 0 outside one */
    int n_devices, room_devices, n_listed, room_listed;
    struct ib_device *device;
    struct listed *listed;
    struct err *err;
};

static int wrong(struct reader *r, const char *what)
{
    return err_set(r->err, ERR_USAGE, "%s:%d: %s", r->where, r->line, what);
}

/* --- pieces of a line ----------------------------------------------------------------- */

static const char *blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* "S-0002c9...", in quotes; NULL: no such thing stands here. */
static const char *read_id(const char *p, enum ib_kind *kind, uint64_t *guid)
{
    static const char kinds[] = "SHR";
    const char *which = p[0] == '"' && p[1] ? strchr(kinds, p[1]) : NULL;
    char *end;

    if (!which || p[2] != '-' || !isxdigit((unsigned char)p[3]))
        return NULL;
    *kind = (enum ib_kind)(which - kinds);
    *guid = strtoull(p + 3, &end, 16);
    return *end == '"' && *guid && end - (p + 3) <= 16 ? end + 1 : NULL;
}

/* "[12]", and "[ext 3]" and "(guid)" behind it, which say nothing here. */
static const char *read_port(const char *p, int *port)
{
    char *end;
    long v;

    if (*p != '[' || !isdigit((unsigned char)p[1]))
        return NULL;
    v = strtol(p + 1, &end, 10);
    if (*end != ']' || v > 65535)
        return NULL;
    *port = (int)v;
    for (p = end + 1; *p == '(' || strncmp(p, "[ext ", 5) == 0; p++) {
        p = strchr(p, *p == '(' ? ')' : ']');
        if (!p)
            return NULL;
    }
    return p;
}

/* The last text in quotes. */
static void read_name(const char *p, char name[65])
{
    const char *end = strrchr(p, '"'), *start = end;

    name[0] = '\0';
    while (start && start > p && start[-1] != '"')
        start--;
    if (start && start > p)
        snprintf(name, 65, "%.*s", (int)(end - start), start);
}

/* "4xNDR" among the words of p; -1 when there is none.  Rates as sysfs names them. */
static double read_rate(const char *p)
{
    static const struct {
        const char *name;
        double lane;
    } speeds[] = { { "SDR", 2.5 },  { "DDR", 5 },   { "QDR", 10 },
                   { "FDR10", 10 }, { "FDR", 14 },  { "EDR", 25 },
                   { "HDR", 50 },   { "NDR", 100 }, { "XDR", 200 } };

    for (const char *x = strchr(p, 'x'); x; x = strchr(x + 1, 'x')) {
        const char *digit = x;
        size_t n = strcspn(x + 1, " \t");
        while (digit > p && isdigit((unsigned char)digit[-1]) && x - digit < 2)
            digit--;
        if (digit == x || (digit > p && !isspace((unsigned char)digit[-1])))
            continue;
        for (size_t i = 0; i < ARRAY_LEN(speeds); i++)
            if (strlen(speeds[i].name) == n && strncmp(x + 1, speeds[i].name, n) == 0)
                return (double)strtol(digit, NULL, 10) * speeds[i].lane;
    }
    return -1;
}

/* --- records ---------------------------------------------------------------------------- */

static int add_device(struct reader *r, enum ib_kind kind, uint64_t guid,
                      const char *name)
{
    struct ib_device *d;

    if (r->n_devices == 4 * IBNET_DEVICES_MAX) /* each end of each cable adds one */
        return wrong(r, "more devices than any fabric has");
    if (r->n_devices == r->room_devices) {
        r->room_devices = r->room_devices ? 2 * r->room_devices : 256;
        r->device = xrealloc(r->device, (size_t)r->room_devices, sizeof(*r->device));
    }
    d = &r->device[r->n_devices++];
    *d = (struct ib_device){ .guid = guid, .kind = kind };
    memcpy(d->name, name, sizeof(d->name));
    return 0;
}

/* Switch<tab>65 "S-guid"<tabs># "name" ...; Ca and Rt alike. */
static int read_header(struct reader *r, const char *line)
{
    const char *p = strchr(line, '"');
    enum ib_kind kind;
    char name[65];

    p = p ? read_id(p, &kind, &r->guid) : NULL;
    if (!p)
        return wrong(r, "a record without its \"S-guid\", \"H-guid\" or \"R-guid\"");
    read_name(p, name);
    return add_device(r, kind, r->guid, name);
}

/* [1](guid) "S-guid"[1]... # ...; the peer's name is the last one in quotes. */
static int read_cable(struct reader *r, const char *line)
{
    struct listed c = { { r->guid, 0 }, { 0, 0 }, -1 };
    enum ib_kind kind;
    char name[65];
    const char *p = read_port(line, &c.port[0]);

    if (!r->guid)
        return wrong(r, "a port that belongs to no Switch, Ca or Rt");
    p = p ? read_id(blanks(p), &kind, &c.guid[1]) : NULL;
    p = p ? read_port(p, &c.port[1]) : NULL;
    if (!p)
        return wrong(r, "a port is written [N] \"S-guid\"[N] # ...");
    c.gbits_per_s = read_rate(p);
    read_name(p, name);
    if (r->n_listed == r->room_listed) {
        r->room_listed = r->room_listed ? 2 * r->room_listed : 256;
        r->listed = xrealloc(r->listed, (size_t)r->room_listed, sizeof(*r->listed));
    }
    r->listed[r->n_listed++] = c;
    return add_device(r, kind, c.guid[1], name);
}

static int begins(const char *line, const char *word)
{
    size_t n = strlen(word);

    return strncmp(line, word, n) == 0 && isspace((unsigned char)line[n]);
}

static int read_line(struct reader *r, const char *line)
{
    if (*line == '[')
        return read_cable(r, line);
    if (begins(line, "Switch") || begins(line, "Ca") || begins(line, "Rt"))
        return read_header(r, line);
    if (begins(line, "SW") || begins(line, "CA") || begins(line, "RT"))
        return wrong(r, "the one-line form of ibnetdiscover -p: run it without -p");
    if (*line == '\0')
        r->guid = 0;
    return 0; /* comments, vendid=, sysimgguid=, Chassis ... */
}

static int read_lines(struct reader *r, char *text)
{
    int rc = 0;

    for (char *next; text && rc == 0; text = next) {
        size_t n;
        next = strchr(text, '\n');
        if (next)
            *next++ = '\0';
        r->line++;
        n = strlen(text);
        while (n && isspace((unsigned char)text[n - 1]))
            text[--n] = '\0';
        rc = read_line(r, text);
    }
    return rc;
}

/* --- once each --------------------------------------------------------------------------- */

static int compare_devices(const void *a, const void *b)
{
    const struct ib_device *x = a, *y = b;

    if (x->guid != y->guid)
        return x->guid < y->guid ? -1 : 1;
    return (y->name[0] != '\0') - (x->name[0] != '\0'); /* the named one first */
}

static int unite_devices(struct reader *r)
{
    int kept = 0;

    if (r->n_devices == 0)
        return 0;
    qsort(r->device, (size_t)r->n_devices, sizeof(*r->device), compare_devices);
    for (int i = 0; i < r->n_devices; i++) {
        if (kept && r->device[kept - 1].guid == r->device[i].guid) {
            if (r->device[kept - 1].kind != r->device[i].kind)
                return err_set(r->err, ERR_USAGE,
                               "%s: GUID %016llx is a switch here and an adapter there",
                               r->where, (unsigned long long)r->device[i].guid);
            continue;
        }
        r->device[kept++] = r->device[i];
    }
    r->n_devices = kept;
    return kept <= IBNET_DEVICES_MAX
               ? 0
               : err_set(r->err, ERR_USAGE, "%s: more than %d devices", r->where,
                         IBNET_DEVICES_MAX);
}

static int find_device(const struct reader *r, uint64_t guid)
{
    int lo = 0, hi = r->n_devices - 1;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (r->device[mid].guid < guid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int compare_cables(const void *a, const void *b)
{
    const struct ib_cable *x = a, *y = b;
    const int p[] = { x->a.device, x->a.port, x->b.device, x->b.port };
    const int q[] = { y->a.device, y->a.port, y->b.device, y->b.port };

    for (size_t i = 0; i < ARRAY_LEN(p); i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return (x->gbits_per_s < y->gbits_per_s) - (x->gbits_per_s > y->gbits_per_s);
}

static void unite_cables(const struct reader *r, struct ibnet *out)
{
    int kept = 0;

    out->cable = xcalloc((size_t)r->n_listed + 1, sizeof(*out->cable));
    for (int i = 0; i < r->n_listed; i++) {
        const struct listed *l = &r->listed[i];
        struct ib_end a = { find_device(r, l->guid[0]), l->port[0] };
        struct ib_end b = { find_device(r, l->guid[1]), l->port[1] };
        int turn = a.device > b.device || (a.device == b.device && a.port > b.port);
        out->cable[i] = (struct ib_cable){ turn ? b : a, turn ? a : b, l->gbits_per_s };
    }
    qsort(out->cable, (size_t)r->n_listed, sizeof(*out->cable), compare_cables);
    for (int i = 0; i < r->n_listed; i++) {
        const struct ib_cable *c = &out->cable[i];
        const struct ib_cable *last = kept ? &out->cable[kept - 1] : NULL;
        if (last && c->a.device == last->a.device && c->a.port == last->a.port &&
            c->b.device == last->b.device && c->b.port == last->b.port)
            continue;
        out->cable[kept++] = *c;
    }
    out->n_cables = kept;
}

int ibnet_parse(const char *text, size_t len, const char *where, struct ibnet *out,
                struct err *err)
{
    struct reader r = { .where = where, .err = err };
    char *copy;
    int rc;

    if (len > IBNET_MAX_BYTES || memchr(text, '\0', len))
        return err_set(err, ERR_USAGE, "%s: %s", where,
                       len > IBNET_MAX_BYTES ? "too large" : "holds a NUL byte");
    copy = xstrndup(text, len);
    rc = read_lines(&r, copy);
    if (rc == 0)
        rc = unite_devices(&r);
    if (rc == 0) {
        unite_cables(&r, out);
        out->device = r.device;
        out->n_devices = r.n_devices;
        r.device = NULL;
    }
    free(r.device);
    free(r.listed);
    free(copy);
    return rc;
}

void ibnet_release(struct ibnet *n)
{
    free(n->device);
    free(n->cable);
    *n = (struct ibnet){ 0 };
}
