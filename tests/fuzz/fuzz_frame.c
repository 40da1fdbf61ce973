/* Streams between muster and its agents: no bytes may crash the reader or make it
 * take more than is there, and what it accepts is written back the same. */
#include "fuzz.h"

#include "base/err.h"
#include "launcher/agent_wire.h"
#include "launcher/frame.h"

static void same_again(const struct frame_out *o, struct frame whole)
{
    if (o->bytes.len != whole.left + 8 ||
        memcmp(o->bytes.text + 8, whole.at, whole.left) != 0)
        abort();
}

static void read_job(struct frame f)
{
    struct frame_out o = { .sent = 0 };
    struct frame whole = f;
    struct agent_job j;

    if (agent_job_take(&f, &j, NULL) < 0)
        return;
    if (j.node >= j.n_nodes || j.n_ranks > j.world)
        abort();
    for (int i = 0; i < j.n_ranks; i++)
        if (j.node_of[j.ranks[i].rank] != j.node)
            abort();
    if (agent_job_put(&o, &j, NULL) < 0)
        abort();
    /* Two numbers lose their highest bit; the length stays. */
    if (o.bytes.len != whole.left + 8)
        abort();
    frame_out_release(&o);
    agent_job_release(&j);
}

static void read_hello(struct frame f)
{
    struct frame_out o = { .sent = 0 };
    struct frame whole = f;
    struct agent_hello h;

    if (agent_hello_take(&f, &h, NULL) < 0)
        return;
    if (h.protocol == FRAME_PROTOCOL) {
        agent_hello_put(&o, &h);
        same_again(&o, whole);
        frame_out_release(&o);
    }
    agent_hello_release(&h);
}

static void read_parts(struct frame f)
{
    size_t n;

    frame_u64(&f);
    frame_text(&f);
    while (f.left && !f.bad) {
        frame_piece(&f, &n);
        frame_u32(&f);
    }
    frame_done(&f, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_in in = { .greeted = size > 0 && data[0] == 0 };
    struct err err = ERR_INIT;
    struct frame f;

    for (size_t at = 0; at < size; at += 1 + size / 3) {
        size_t left = size - at, step = 1 + size / 3;
        frame_feed(&in, data + at, left < step ? left : step);
        while (frame_next(&in, &f, &err) == 1) {
            read_job(f);
            read_hello(f);
            read_parts(f);
        }
        err_release(&err);
    }
    frame_in_release(&in);
    return 0;
}
