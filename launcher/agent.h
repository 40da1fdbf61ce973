/* agent.h - muster's hands on one node: hosts the PMIx server and the node's ranks of
 * one job after another, for a launcher at the other end of a stream of frames.
 *
 *   agent     -> HELLO
 *   launcher  -> JOB            agent -> READY (the server is up), or FAILED
 *   launcher  -> GO             agent -> STARTED, or FAILED
 *   both         output, events, fences, signals ... until every rank has ended and
 *                EMPTY 0 was said
 *   launcher  -> CLOSE          agent -> CLOSED: a server outlives its ranks until no
 *                               node needs it
 *
 * The stream is all that keeps it: when it ends, or is silent for FRAME_SILENCE_MS, or
 * SIGTERM comes, everything of the job is ended (TERM, grace, KILL) and the agent goes. */
#ifndef LAUNCHER_AGENT_H
#define LAUNCHER_AGENT_H

struct err;

struct agent_options {
    int in, out;      /* the stream */
    const char *host; /* for tests: call this machine so (needs root); NULL: leave it */
    const char *build; /* that is wanted, agent_build(); NULL: any */
};

/* Until the stream is at its end; 0, or -1 when that was not orderly. */
int agent_serve(const struct agent_options *o, struct err *err);

#endif
