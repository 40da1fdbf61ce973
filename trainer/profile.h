/* profile.h - steps A to B of a run as a trace that Perfetto opens, and as a table.
 *
 * Between profile_begin() and profile_end() every operation and collective that the
 * trainer calls becomes a range.  On a GPU CUPTI adds the kernels and copies that each
 * queued, on their streams; on a CPU, where calls run as they are made, the ranges are
 * all there is.  Both ends wait for the device.  FOLDER/rankN.json is the trace (Chrome's
 * JSON: pid is the rank, tid the stream), FOLDER/rankN.txt the table.
 *
 * Operations and collectives are seen through tables that stand in the place of the real
 * ones and call them; only a run that asks for a profile has them.  Tables have no state,
 * so a process has one profile at most. */
#ifndef TRAINER_PROFILE_H
#define TRAINER_PROFILE_H

#include <stdint.h>

#include "trainer/profile_sum.h"

#ifdef __cplusplus
extern "C" {
#endif

struct coll_ops;
struct dev;
struct err;
struct ops;
struct profile;

/* --- a device that records by itself ------------------------------------------------- */
/* What it saw: kind is PROFILE_MEMORY for a copy, else PROFILE_OTHER; op is not set.
 * id: of push() around the call, 0: outside any.  Its name lives as long as the process. */
typedef void profile_seen(void *arg, const struct profile_event *e, uint64_t id);

/* In the CUDA module: symbol profile_cupti. */
struct profile_device {
    /* Find the library, make the buffers.  Nothing is recorded yet. */
    int (*open)(int64_t buffer_bytes, struct err *err);
    int64_t (*now)(void); /* ns, on the clock of what is recorded */
    int (*start)(struct err *err);
    void (*push)(const char *name, uint64_t id); /* id > 0; nests */
    void (*pop)(void);
    /* Everything since start(), in no order.  *dropped: records that found no room. */
    int (*stop)(profile_seen *seen, void *arg, int64_t *dropped, struct err *err);
};

/* --- the trainer's side --------------------------------------------------------------- */
/* After it, *ops and *coll are the recording tables.  Folder: made when it is written. */
int profile_open(struct profile **out, const struct ops **ops, struct dev *dev,
                 const struct coll_ops **coll, const char *folder, int rank,
                 struct err *err);
void profile_free(struct profile *p); /* NULL is fine */

int profile_begin(struct profile *p, int64_t first_step, struct err *err);
/* Steps first_step to last_step are done; others_s: median time of the steps that were
 * not profiled, NaN when there were none.  Writes both files. */
int profile_end(struct profile *p, int64_t last_step, double others_s, struct err *err);
/* The table; borrowed, NULL before profile_end(). */
const char *profile_table(const struct profile *p);

/* --- inside the profile ---------------------------------------------------------------- */
struct profile_data {
    struct profile_op *op;
    int n_ops;
    struct profile_event *event;
    int n_events;
    int64_t from, to; /* of the profiled steps */
    int64_t first_step, last_step, dropped;
    double others_s;
    int rank, host_only; /* no device recorded: events are the operations themselves */
    const char *device;  /* "cpu" */
};

/* profile_ops.c: begin and end of a call; -1: nothing is being recorded. */
int profile_enter(const struct profile_op *op);
void profile_leave(int at);
void profile_done(int at); /* a collective that profile_enter() began is over */
void profile_tables(const struct ops **ops, const struct coll_ops **coll);

/* profile_show.c */
int profile_write_trace(const struct profile_data *d, const char *path,
                        struct err *err);
char *profile_text(const struct profile_data *d); /* the caller's to free() */

#ifdef __cplusplus
}
#endif
#endif
