/* task_wire.h - what the launcher and the agent beside each rank say to each other.
 *
 * TCP, opened by the agent with the handshake of trainer/kvwire.h (both sides prove
 * that they know MUSTER_JOB_KEY, neither sends it).  Then frames: type (1 byte),
 * length (4, little endian), bytes.
 *
 *   agent to launcher
 *   HELLO   JSON: rank, pmix_rank, node, host, boot_id, pid
 *   OUT ERR bytes of the rank's stdout and stderr; empty: that stream is over
 *   EVENT   bytes of its event pipe (trainer/heartbeat.h)
 *   FAILED  JSON: code, text: the rank could not be started; the agent ends
 *   SIGNAL  a number: the agent was sent this signal by somebody else
 *   GONE    JSON: what ("slurmstepd", "slurmd", "slurmd is back"), pid: a daemon that
 *           the agent depends on has died, or has come back (task_keepers.h)
 *   PMIX    1: the rank has met its PMIx server; 0: it has left it (task_pmix.h)
 *   EXIT    JSON: wait_status; the last frame
 *   launcher to agent
 *   START   struct task_start
 *   SIGNAL  a number, for the rank's process group; TERM and KILL go to all that
 *           descends from the agent
 * When the connection ends before EXIT, the agent ends its rank: TERM, grace, KILL. */
#ifndef LAUNCHER_TASK_WIRE_H
#define LAUNCHER_TASK_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "launcher/task_bind.h"

struct err;

enum task_frame {
    TASK_HELLO = 1,
    TASK_OUT,
    TASK_ERR,
    TASK_EVENT,
    TASK_FAILED,
    TASK_SIGNAL,
    TASK_EXIT,
    TASK_START,
    TASK_GONE,
    TASK_PMIX,
    TASK_LAST = TASK_PMIX
};

enum { TASK_HEAD = 5, TASK_MOST = 4 << 20 /* bytes of a frame */ };

/* Where an agent finds its launcher: addresses "HOST:PORT" with blanks between, tried
 * one after the other. */
#define TASK_AT "MUSTER_AGENT_AT"
/* The rank that srun gives its stdin. */
#define TASK_STDIN "MUSTER_AGENT_STDIN"

void task_frame_add(struct str *out, enum task_frame type, const char *bytes, size_t n);
/* The frame at the start of buf[len]: its whole length, 0 when it is not all there
 * yet, -1 when it is none.  *bytes lies in buf. */
long task_frame_parse(const char *buf, size_t len, enum task_frame *type,
                      const char **bytes, size_t *n);
/* The number of a SIGNAL frame; 0: none. */
int task_frame_signal(const char *bytes, size_t n);

/* A peer whose machine is gone is noticed within 10 s. */
void task_keep_alive(int fd);

/* Shall the agent look at its node's network, and at names? (net_look.h) */
enum task_net { TASK_NET_NONE, TASK_NET_LOOK, TASK_NET_NAMES, TASK_NETS };

/* What to start.  Byte for byte, whatever the bytes are (case C15). */
struct task_start {
    char *cwd, *cpus, *program; /* owned */
    int64_t grace_ms;
    enum task_net net;
    int look_ms; /* how often to look whether the rank met its PMIx server; 0 never */
    enum task_bind bind; /* when cpus is "": what the agent shall choose */
    struct strlist env;  /* of the rank, as far as the launcher knows it */
    struct strlist drop; /* names that the agent may have and the rank must not */
    struct strlist argv; /* item[n] is NULL after task_start_parse() */
};

void task_start_add(struct str *out, const struct task_start *s); /* a frame */
int task_start_parse(const char *bytes, size_t n, struct task_start *out,
                     struct err *err);
void task_start_release(struct task_start *s);

#endif
