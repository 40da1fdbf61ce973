#include "launcher/task_wire.h"

#include <endian.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/mem.h"

static uint32_t get32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static void add32(struct str *s, uint32_t v)
{
    v = htole32(v);
    str_add(s, (const char *)&v, sizeof(v));
}

void task_frame_add(struct str *out, enum task_frame type, const char *bytes, size_t n)
{
    char head = (char)type;

    str_add(out, &head, 1);
    add32(out, (uint32_t)n);
    if (n)
        str_add(out, bytes, n);
}

long task_frame_parse(const char *buf, size_t len, enum task_frame *type,
                      const char **bytes, size_t *n)
{
    if (len < TASK_HEAD)
        return 0;
    *type = (enum task_frame)buf[0];
    *n = get32(buf + 1);
    *bytes = buf + TASK_HEAD;
    if (*type < TASK_HELLO || *type > TASK_LAST || *n > TASK_MOST)
        return -1;
    return len < TASK_HEAD + *n ? 0 : (long)(TASK_HEAD + *n);
}

int task_frame_signal(const char *bytes, size_t n)
{
    return n == 1 && bytes[0] > 0 && bytes[0] < 65 ? bytes[0] : 0;
}

void task_keep_alive(int fd)
{
    const struct {
        int level, name, value;
    } wanted[] = {
        { SOL_SOCKET, SO_KEEPALIVE, 1 },          { IPPROTO_TCP, TCP_KEEPIDLE, 4 },
        { IPPROTO_TCP, TCP_KEEPINTVL, 2 },        { IPPROTO_TCP, TCP_KEEPCNT, 3 },
        { IPPROTO_TCP, TCP_USER_TIMEOUT, 10000 }, { IPPROTO_TCP, TCP_NODELAY, 1 },
    };

    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        setsockopt(fd, wanted[i].level, wanted[i].name, &wanted[i].value, sizeof(int));
}

/* ---- what to start ---- */

static void add_text(struct str *s, const char *text)
{
    str_add(s, text, strlen(text) + 1);
}

static void add_list(struct str *s, const struct strlist *l)
{
    for (int i = 0; i < l->n; i++)
        add_text(s, l->item[i]);
}

void task_start_add(struct str *out, const struct task_start *s)
{
    struct str body = STR_INIT;

    add32(&body, (uint32_t)s->grace_ms);
    add32(&body, (uint32_t)s->env.n);
    add32(&body, (uint32_t)s->drop.n);
    add32(&body, (uint32_t)s->argv.n);
    add32(&body, (uint32_t)s->bind);
    add32(&body, (uint32_t)s->net);
    add32(&body, (uint32_t)s->look_ms);
    add_text(&body, s->cwd);
    add_text(&body, s->cpus);
    add_text(&body, s->program);
    add_list(&body, &s->env);
    add_list(&body, &s->drop);
    add_list(&body, &s->argv);
    task_frame_add(out, TASK_START, body.text, body.len);
    str_release(&body);
}

/* The next text of bytes[n], *at behind it; NULL: they end before. */
static const char *next_text(const char *bytes, size_t n, size_t *at)
{
    const char *text = bytes + *at;
    const char *end = *at < n ? memchr(text, '\0', n - *at) : NULL;

    if (!end)
        return NULL;
    *at += (size_t)(end - text) + 1;
    return text;
}

static int take_text(const char *bytes, size_t n, size_t *at, char **out)
{
    const char *text = next_text(bytes, n, at);

    *out = xstrdup(text);
    return text ? 0 : -1;
}

static int take_list(const char *bytes, size_t n, size_t *at, uint32_t count,
                     struct strlist *l)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *text = next_text(bytes, n, at);
        if (!text)
            return -1;
        strlist_add(l, text);
    }
    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    l->item[l->n] = NULL;
    return 0;
}

int task_start_parse(const char *bytes, size_t n, struct task_start *out,
                     struct err *err)
{
    struct task_start s = { 0 };
    size_t at = 28;

    if (n >= at && get32(bytes + 16) < TASK_BINDS && get32(bytes + 20) < TASK_NETS) {
        s.grace_ms = get32(bytes);
        s.bind = (enum task_bind)get32(bytes + 16);
        s.net = (enum task_net)get32(bytes + 20);
        s.look_ms = (int)get32(bytes + 24);
        if (take_text(bytes, n, &at, &s.cwd) == 0 &&
            take_text(bytes, n, &at, &s.cpus) == 0 &&
            take_text(bytes, n, &at, &s.program) == 0 &&
            take_list(bytes, n, &at, get32(bytes + 4), &s.env) == 0 &&
            take_list(bytes, n, &at, get32(bytes + 8), &s.drop) == 0 &&
            take_list(bytes, n, &at, get32(bytes + 12), &s.argv) == 0 && at == n &&
            s.argv.n > 0) {
            *out = s;
            return 0;
        }
    }
    task_start_release(&s);
    return err_set(err, ERR_SYSTEM,
                   "the launcher's START cannot be read: is this the muster that "
                   "started the step?");
}

void task_start_release(struct task_start *s)
{
    free(s->cwd);
    free(s->cpus);
    free(s->program);
    strlist_release(&s->env);
    strlist_release(&s->drop);
    strlist_release(&s->argv);
    *s = (struct task_start){ 0 };
}
