#include "launcher/task_voice.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/js.h"
#include "trainer/kvdial.h"

enum { STUCK_MS = 3600000, KEEP_BYTES = 1 << 16 };

void task_voice_lose(struct task_voice *v)
{
    if (v->fd >= 0)
        close(v->fd);
    v->fd = -1;
    v->due = 0;
    str_clear(&v->kept);
}

void task_voice_flush(struct task_voice *v)
{
    v->due = 0;
    if (v->fd >= 0 && v->kept.len &&
        kvdial_write(v->fd, v->kept.text, v->kept.len, clock_ms() + STUCK_MS) < 0)
        task_voice_lose(v);
    str_clear(&v->kept);
}

void task_voice_keep(struct task_voice *v, enum task_frame type, const char *bytes,
                     size_t n)
{
    task_frame_add(&v->kept, type, bytes, n);
    if (!v->due)
        v->due = clock_ms() + TASK_VOICE_KEEP_MS;
    if (v->kept.len > KEEP_BYTES)
        task_voice_flush(v);
}

void task_voice_say(struct task_voice *v, enum task_frame type, const char *bytes,
                    size_t n)
{
    task_frame_add(&v->kept, type, bytes, n);
    task_voice_flush(v);
}

void task_voice_say_json(struct task_voice *v, enum task_frame type, struct js *o)
{
    char *line = js_line(o);

    task_voice_say(v, type, line, strlen(line));
    free(line);
    js_free(o);
}

void task_voice_release(struct task_voice *v)
{
    task_voice_lose(v);
    str_release(&v->kept);
}
