/* heartbeat.h - what a rank tells the program that started it.
 *
 * One JSON object a line, written with one write() (at most PIPE_BUF bytes) to
 * the descriptor named by MUSTER_EVENT_FD; without it every call does nothing.
 * Keys: "rank", "t" (seconds, CLOCK_REALTIME), "event" and its own:
 *   arrive  {"stage"}             reached a meeting point ("wireup", "mpi", ...)
 *   leave   {"stage"}             the meeting is complete
 *   place   {"host","boot_id","device","busid","cpus","threads","describe"}
 *   step    {"step", ...}         a step is done; rank 0 adds its metrics
 *   alive   {"step"}              sent by a timer when nothing else was
 *   error   {"code","text"}       the rank is about to fail; with "because_of": a rank
 *                                 that failed before, and says why itself; with
 *                                 "of_peer" true: some rank is gone, it cannot say which
 *   done    {...}                 the rank finished well; rank 0 adds a summary */
#ifndef TRAINER_HEARTBEAT_H
#define TRAINER_HEARTBEAT_H

#ifdef __cplusplus
extern "C" {
#endif

struct js;

/* Starts the timer of "alive" (each MUSTER_ALIVE_MS, 1000).  A second call for
 * the same process does nothing.  The rank is never held up: the descriptor is
 * made nonblocking and what does not fit into the pipe is dropped ("error" and
 * "done" get half a second); a reader that is gone raises no SIGPIPE.  A line
 * longer than PIPE_BUF is replaced by one with "too_long", its bytes. */
void heartbeat_open(int rank);
void heartbeat_arrive(const char *stage);
void heartbeat_leave(const char *stage);
/* Takes `fields` over (an object, or NULL). */
void heartbeat_send(const char *event, struct js *fields);
void heartbeat_close(void);

#ifdef __cplusplus
}
#endif
#endif
