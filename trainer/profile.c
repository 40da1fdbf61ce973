#include "trainer/profile.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "trainer/coll.h"
#include "trainer/ops.h"

enum { BUFFER_BYTES = 256 << 20, FIRST_OPS = 4096 };

struct profile {
    struct profile_data d;
    const struct ops *real;
    struct dev *dev;
    const struct profile_device *device; /* NULL: none */
    char *folder, *text;
    int recording, room_ops, room_events;
};

static struct profile *the; /* the recording tables have no other way to it */

static int64_t now_ns(const struct profile *p)
{
    struct timespec t;

    if (p->device)
        return p->device->now();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* --- calls ---------------------------------------------------------------------------- */
static void add_event(struct profile *p, const struct profile_event *e)
{
    if (p->d.n_events == p->room_events) {
        p->room_events = p->room_events ? 2 * p->room_events : FIRST_OPS;
        p->d.event = xrealloc(p->d.event, (size_t)p->room_events, sizeof(*p->d.event));
    }
    p->d.event[p->d.n_events++] = *e;
}

int profile_enter(const struct profile_op *op)
{
    struct profile *p = the;
    int at;

    if (!p || !p->recording)
        return -1;
    if (p->d.n_ops == p->room_ops) {
        p->room_ops = p->room_ops ? 2 * p->room_ops : FIRST_OPS;
        p->d.op = xrealloc(p->d.op, (size_t)p->room_ops, sizeof(*p->d.op));
    }
    at = p->d.n_ops++;
    p->d.op[at] = *op;
    p->d.op[at].from = now_ns(p);
    if (p->device)
        p->device->push(op->name, (uint64_t)at + 1);
    return at;
}

/* Without a device that records, what ran is the call itself. */
static void call_ran(struct profile *p, int at)
{
    const struct profile_op *op = &p->d.op[at];

    if (!p->device)
        add_event(p,
                  &(struct profile_event){
                      .from = op->from, .to = now_ns(p), .op = at, .kind = op->kind });
}

void profile_leave(int at)
{
    struct profile *p = the;

    if (at < 0 || !p || !p->recording)
        return;
    if (p->device)
        p->device->pop();
    p->d.op[at].to = now_ns(p);
    if (p->d.op[at].kind != PROFILE_COLLECTIVE)
        call_ran(p, at);
}

void profile_done(int at)
{
    if (at >= 0 && the && the->recording)
        call_ran(the, at);
}

/* --- life ------------------------------------------------------------------------------- */
/* The module that the operations came from may hold a recorder. */
static const struct profile_device *find_device(const struct ops *ops)
{
    Dl_info where;
    void *module = NULL, *found = NULL;

    if (dladdr(ops, &where) && where.dli_fname && strcmp(ops->name, "cpu") != 0)
        module = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (module) {
        found = dlsym(module, "profile_cupti");
        dlclose(module); /* the ops loader keeps it */
    }
    return found;
}

int profile_open(struct profile **out, const struct ops **ops, struct dev *dev,
                 const struct coll_ops **coll, const char *folder, int rank,
                 struct err *err)
{
    struct profile *p = xcalloc(1, sizeof(*p));

    p->real = *ops;
    p->dev = dev;
    p->device = find_device(*ops);
    p->d.rank = rank;
    p->d.device = (*ops)->name;
    p->d.host_only = !p->device;
    if (!p->device && strcmp((*ops)->name, "cpu") != 0) {
        free(p);
        return err_set(
            err, ERR_MISSING,
            "--profile: the CUDA module was built without CUPTI: install the "
            "toolkit's CUPTI headers and build again");
    }
    if (p->device && p->device->open(BUFFER_BYTES, err)) {
        free(p);
        return -1;
    }
    p->folder = xstrdup(folder);
    the = p;
    profile_tables(ops, coll);
    *out = p;
    return 0;
}

void profile_free(struct profile *p)
{
    if (!p)
        return;
    the = NULL;
    free(p->d.op);
    free(p->d.event);
    free(p->folder);
    free(p->text);
    free(p);
}

int profile_begin(struct profile *p, int64_t first_step, struct err *err)
{
    if (p->real->sync(p->dev, err) || (p->device && p->device->start(err)))
        return -1;
    p->d.first_step = first_step;
    p->d.from = now_ns(p);
    p->recording = 1;
    return 0;
}

static void seen(void *arg, const struct profile_event *e, uint64_t id)
{
    struct profile *p = arg;
    struct profile_event mine = *e;

    mine.op = id > 0 && id <= (uint64_t)p->d.n_ops ? (int32_t)id - 1 : -1;
    if (mine.op >= 0)
        mine.kind = p->d.op[mine.op].kind;
    else if (e->name && strstr(e->name, "nccl"))
        mine.kind = PROFILE_COLLECTIVE;
    add_event(p, &mine);
}

static int write_text(const struct profile *p, const char *path, struct err *err)
{
    FILE *fp = fopen(path, "we");
    int rc = 0;

    if (!fp || fputs(p->text, fp) < 0)
        rc = err_set(err, ERR_SYSTEM, "%s: cannot be written: %s", path,
                     strerror(errno));
    if (fp && fclose(fp) != 0 && rc == 0)
        rc = err_set(err, ERR_SYSTEM, "%s: cannot be written: %s", path,
                     strerror(errno));
    return rc;
}

int profile_end(struct profile *p, int64_t last_step, double others_s, struct err *err)
{
    char *trace = xasprintf("%s/rank%d.json", p->folder, p->d.rank);
    char *table = xasprintf("%s/rank%d.txt", p->folder, p->d.rank);
    int rc = p->real->sync(p->dev, err);

    p->d.to = now_ns(p);
    p->recording = 0;
    p->d.last_step = last_step;
    p->d.others_s = others_s;
    if (rc == 0 && p->device)
        rc = p->device->stop(seen, p, &p->d.dropped, err);
    if (rc == 0 && mkdir(p->folder, 0777) != 0 && errno != EEXIST)
        rc = err_set(err, ERR_SYSTEM, "%s: cannot make the folder: %s", p->folder,
                     strerror(errno));
    if (rc == 0) {
        profile_adopt(p->d.event, p->d.n_events);
        free(p->text);
        p->text = profile_text(&p->d);
        rc = profile_write_trace(&p->d, trace, err) || write_text(p, table, err) ? -1
                                                                                 : 0;
    }
    free(trace);
    free(table);
    return rc;
}

const char *profile_table(const struct profile *p)
{
    return p->text;
}
