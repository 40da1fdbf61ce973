#include "trainer/wireup.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/heartbeat.h"
#include "trainer/wireup_method.h"
#include "trainer/wireup_rules.h"

enum { DEFAULT_TIMEOUT_MS = 120000 };

struct wireup {
    const struct wireup_method *method;
    void *link;
    struct wireup_self self;
    struct wireup_seat *seat; /* [world], after the first meeting, as far as known */
    unsigned char *known;
    int timeout_ms;
};

static const struct wireup_method *const methods[] = { &wireup_pmix, &wireup_env,
                                                       &wireup_single };

static void read_boot_id(char *out, size_t size)
{
    FILE *fp = fopen("/proc/sys/kernel/random/boot_id", "re");

    *out = '\0';
    if (fp && !fgets(out, (int)size, fp))
        *out = '\0';
    if (fp)
        fclose(fp);
    out[strcspn(out, "\n")] = '\0';
}

static int meeting_timeout_ms(int asked)
{
    const char *text = getenv("MUSTER_WIREUP_TIMEOUT_MS");
    char *end;
    long v;

    if (asked >= 0)
        return asked;
    v = text ? strtol(text, &end, 10) : 0;
    return text && *text && *end == '\0' && v > 0 && v <= INT32_MAX
               ? (int)v
               : DEFAULT_TIMEOUT_MS;
}

static int put_seat(struct wireup *w, struct err *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct str s = STR_INIT;
    int rc;

    str_addf(&s, "%s\n%s\n%d\n%d\n%d\n%d\n%.60s", w->self.host, w->self.boot_id,
             (int)getpid(), w->self.local_rank, w->self.local_world, w->self.node_rank,
             visible ? visible : "-");
    rc = wireup_put(w, "muster.seat", s.text, s.len, err);
    str_release(&s);
    return rc;
}

/* Up to a newline into to[size]; the rest. */
static char *take_line(char *text, char *to, size_t size)
{
    size_t n = strcspn(text, "\n");

    snprintf(to, size, "%.*s", (int)n, text);
    return text + n + (text[n] == '\n');
}

static int take_number(char **text)
{
    char line[16];

    *text = take_line(*text, line, sizeof(line));
    return (int)strtol(line, NULL, 10);
}

static int read_seat(const struct wireup *w, int rank, struct err *err)
{
    struct wireup_seat *s = &w->seat[rank];
    void *bytes;
    char *text;
    size_t n;

    if (w->known[rank])
        return 0;
    if (w->method->get(w->link, rank, "muster.seat", &bytes, &n, err))
        return -1;
    text = take_line(bytes, s->host, sizeof(s->host));
    text = take_line(text, s->boot_id, sizeof(s->boot_id));
    s->pid = take_number(&text);
    s->local_rank = take_number(&text);
    s->local_world = take_number(&text);
    s->node_rank = take_number(&text);
    take_line(text, s->visible, sizeof(s->visible));
    w->known[rank] = 1;
    free(bytes);
    return 0;
}

static int read_seats(const struct wireup *w, struct err *err)
{
    for (int r = 0; r < w->self.world; r++)
        if (read_seat(w, r, err))
            return -1;
    return 0;
}

/* All seats in all ranks is a square of the ranks (512: 262,144 gets of 15 us): rank 0
 * reads them for everyone, the others one when they need it, unless it could not be had
 * then. */
static int look_around(struct wireup *w, struct err *err)
{
    const struct wireup_self *me = &w->self;

    w->seat = xcalloc((size_t)me->world, sizeof(*w->seat));
    w->known = xcalloc((size_t)me->world, 1);
    if (me->rank > 0 && w->method->gets_here && me->local_rank >= 0 &&
        me->local_world >= 0 && me->node_rank >= 0)
        return 0;
    return read_seats(w, err) ? -1 : wireup_check_machines(w->seat, me->world, err);
}

static int same_machine(const struct wireup *w, int a, int b)
{
    return strcmp(w->seat[a].host, w->seat[b].host) == 0 &&
           strcmp(w->seat[a].boot_id, w->seat[b].boot_id) == 0;
}

/* What the launcher left out follows from who sits where, in rank order. */
static void derive_local(struct wireup *w)
{
    struct wireup_self *me = &w->self;
    int before = 0, all = 0, nodes = 0;

    for (int r = 0; r < me->world; r++) {
        int first = 1;

        before += r < me->rank && same_machine(w, r, me->rank);
        all += same_machine(w, r, me->rank);
        for (int q = 0; q < r && first; q++)
            first = !same_machine(w, q, r);
        if (first && same_machine(w, r, me->rank) && me->node_rank < 0)
            me->node_rank = nodes;
        nodes += first;
    }
    if (me->local_rank < 0)
        me->local_rank = before;
    if (me->local_world < 0)
        me->local_world = all;
}

static const struct wireup_method *pick_method(void)
{
    for (size_t i = 0; i + 1 < ARRAY_LEN(methods); i++)
        if (methods[i]->present())
            return methods[i];
    return &wireup_single;
}

static int meet(struct wireup *w, int64_t deadline_ms, struct err *err)
{
    struct wireup_self *me = &w->self;
    int64_t left;

    heartbeat_open(me->rank);
    if (put_seat(w, err))
        return -1;
    left = deadline_ms - clock_ms();
    if (wireup_fence(w, "wireup", left > 1 ? (int)left : 1, err) || look_around(w, err))
        return -1;
    if (me->local_rank < 0 || me->local_world < 0 || me->node_rank < 0)
        derive_local(w);
    return 0;
}

int wireup_open(struct wireup **out, int timeout_ms, struct err *err)
{
    struct wireup *w = xcalloc(1, sizeof(*w));
    int64_t now = clock_ms();

    w->method = pick_method();
    w->timeout_ms = meeting_timeout_ms(timeout_ms);
    w->self.method = w->method->name;
    if (gethostname(w->self.host, sizeof(w->self.host) - 1) != 0)
        snprintf(w->self.host, sizeof(w->self.host), "unknown");
    read_boot_id(w->self.boot_id, sizeof(w->self.boot_id));
    if (w->method->open(&w->link, &w->self, w->timeout_ms, err)) {
        free(w);
        return -1;
    }
    if (meet(w, now + w->timeout_ms, err)) {
        wireup_close(w);
        return -1;
    }
    *out = w;
    return 0;
}

const struct wireup_self *wireup_self(const struct wireup *w)
{
    return &w->self;
}

int wireup_put(struct wireup *w, const char *key, const void *bytes, size_t n,
               struct err *err)
{
    return w->method->put(w->link, key, bytes, n, err);
}

int wireup_get(struct wireup *w, int rank, const char *key, void **out, size_t *n,
               struct err *err)
{
    return w->method->get(w->link, rank, key, out, n, err);
}

int wireup_fence(struct wireup *w, const char *what, int timeout_ms, struct err *err)
{
    heartbeat_arrive(what);
    if (w->method->fence(w->link, what, timeout_ms < 0 ? w->timeout_ms : timeout_ms,
                         err))
        return -1;
    heartbeat_leave(what);
    return 0;
}

void wireup_close(struct wireup *w)
{
    if (!w)
        return;
    w->method->close(w->link);
    free(w->seat);
    free(w->known);
    free(w);
}

const char *wireup_host(const struct wireup *w, int rank)
{
    struct err err = ERR_INIT;
    int known = w && w->seat && rank >= 0 && rank < w->self.world &&
                read_seat(w, rank, &err) == 0;

    err_release(&err);
    return known ? w->seat[rank].host : "";
}

int wireup_machines(const struct wireup *w)
{
    struct err err = ERR_INIT;
    int failed = read_seats(w, &err);

    err_release(&err);
    return failed ? -1 : wireup_count_machines(w->seat, w->self.world);
}

int wireup_claim_device(struct wireup *w, const char *busid, struct err *err)
{
    int n = w->self.world, rc = -1, got = 0;
    char **all = xcalloc((size_t)n, sizeof(*all));

    if (wireup_put(w, "muster.busid", busid, strlen(busid), err) ||
        wireup_fence(w, "devices", -1, err) || read_seats(w, err))
        goto out;
    for (; got < n; got++) {
        void *bytes;
        size_t size;

        if (wireup_get(w, got, "muster.busid", &bytes, &size, err))
            goto out;
        all[got] = bytes;
    }
    rc = wireup_check_devices(w->seat, (const char *const *)all, n, err);
out:
    for (int i = 0; i < got; i++)
        free(all[i]);
    free(all);
    return rc;
}
