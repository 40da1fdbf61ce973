/* watch.h - from what ranks do to a verdict: is the run well, who failed first,
 * who is missing.  No process, descriptor or clock of its own: the loop feeds it,
 * times in ms of clock_ms() (base/clock.h), so tests can play any story.
 *
 * Rules
 *   failure   The first rank that ends with a status other than 0, dies of a
 *             signal, calls PMIx_Abort, or leaves PMIx without PMIx_Finalize.
 *             Of several that are seen at once: the earliest "error" event, then
 *             an abort, then a signal, then the lowest rank.  When its "error"
 *             event blames another rank, that one, which has 2 s to fail too; so has
 *             any other when the event only says that some rank is gone ("of_peer").
 *   meeting   Opens when the first rank arrives somewhere (an "arrive" event, or
 *             PMIx_Init, which a rank joins by connecting) and is complete when
 *             all have.  One that stays open for meet_timeout_ms is a hang: the
 *             ranks that are missing are named with their hosts (case C20).  With
 *             expect_arrival the clock runs from the start, not the first arrival.
 *   silence   No event and no output of a rank that runs, for silence_timeout_ms; the
 *             rank is named with the last step it told of.
 *   place     What ranks report is what the plan says (host, GPU, CPUs); the same
 *             host name with two boot ids (C19), one GPU in two ranks (C16). */
#ifndef LAUNCHER_WATCH_H
#define LAUNCHER_WATCH_H

#include <stdint.h>

struct js;
struct watch;

struct watch_plan {
    const char *host;  /* borrowed, for the life of the watch */
    const char *busid; /* "" : no GPU is planned */
    const char *cpus;  /* "" : no binding is planned */
};

struct watch_config {
    int world;
    const struct watch_plan *rank; /* [world]; copied */
    int64_t meet_timeout_ms;       /* <= 0: none */
    int64_t silence_timeout_ms;    /* <= 0: none */
    int expect_arrival;
};

enum watch_pmix { WATCH_CONNECTED, WATCH_FINALIZED };

struct watch_verdict {
    int status;        /* exit status of design.md */
    const char *cause; /* "rank", "signal", "timeout", "start" */
    int culprit;       /* rank, -1: several or none */
    char *reason;      /* owned by the watch; one line */
};

struct watch *watch_new(const struct watch_config *c, int64_t now);
void watch_free(struct watch *w); /* NULL is fine */

void watch_pmix(struct watch *w, int rank, enum watch_pmix what, int64_t now);
void watch_abort(struct watch *w, int rank, int status, const char *text);
void watch_output(struct watch *w, int rank, int64_t now); /* a sign of life */
/* One event of heartbeat.h.  `e` is borrowed for the call. */
void watch_event(struct watch *w, int rank, const struct js *e, int64_t now);
/* How it ended: its exit status, or 128+n for signal n, and then signo is n, else 0.
 * `last_words` is borrowed for the call. */
void watch_exit(struct watch *w, int rank, int status, int signo,
                const char *last_words);
/* The user stopped the clock (Ctrl-Z) for that long. */
void watch_shift(struct watch *w, int64_t ms);

/* NULL while all is well; once set, the verdict stays.  Call it when everything
 * that is known so far was fed. */
const struct watch_verdict *watch_judge(struct watch *w, int64_t now);
/* After a verdict of a hang: was the rank missing, or silent? */
int watch_misses(const struct watch *w, int rank);
/* The next time watch_judge() could change its mind by time alone; -1 never. */
int64_t watch_next(const struct watch *w);

#endif
