/* task_voice.h - what an agent says to its launcher, in few pieces.
 *
 * Each piece costs a packet and wakes the launcher, and ranks say the same things at the
 * same time.  So what nobody waits for is kept for a moment, and goes with what follows. */
#ifndef LAUNCHER_TASK_VOICE_H
#define LAUNCHER_TASK_VOICE_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "launcher/task_wire.h"

struct js;

/* What is kept is said after this many ms at the latest. */
enum { TASK_VOICE_KEEP_MS = 200 };

struct task_voice {
    int fd;          /* -1: the launcher is gone; what is said is dropped */
    struct str kept; /* whole frames */
    int64_t due;     /* clock_ms() when they go; 0: none is kept */
};

#define TASK_VOICE_INIT                      \
    {                                        \
        .fd = -1, .kept = STR_INIT, .due = 0 \
    }

/* Goes at once, behind what is kept.  A slow launcher slows the caller. */
void task_voice_say(struct task_voice *v, enum task_frame type, const char *bytes,
                    size_t n);
/* Frees o. */
void task_voice_say_json(struct task_voice *v, enum task_frame type, struct js *o);
/* Kept until then. */
void task_voice_keep(struct task_voice *v, enum task_frame type, const char *bytes,
                     size_t n);
void task_voice_flush(struct task_voice *v);
/* Closes the connection. */
void task_voice_lose(struct task_voice *v);
void task_voice_release(struct task_voice *v);

#endif
