#include "launcher/node_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/node.h"

enum { SILENCE_MS = 60000, FIRST_MS = 2000, SHOW_MS = 5000, MIB = 1 << 20 };

void node_take_progress(struct node_link *l)
{
    static const char mark[] = NODE_PROGRESS;
    char *at, *end;

    while (l->words.len && (at = strstr(l->words.text, mark)) &&
           (end = strchr(at, '\n'))) {
        char *rest;
        l->copied = strtoll(at + sizeof(mark) - 1, &rest, 10);
        l->to_copy = strtoll(rest, NULL, 10);
        l->ready_by = clock_ms() + SILENCE_MS;
        memmove(at, end + 1, strlen(end + 1) + 1);
        l->words.len = strlen(l->words.text);
    }
}

static const char *slowest(const struct nodes *nodes, int *percent)
{
    const char *name = "";

    *percent = 101;
    for (int i = 0; i < nodes->n; i++) {
        const struct node_link *l = &nodes->link[i];
        int done = l->to_copy > 0 ? (int)(l->copied * 100 / l->to_copy) : 101;
        if (l->greeted || l->lost || done >= *percent)
            continue;
        *percent = done;
        name = l->name;
    }
    return name;
}

void nodes_show_progress(const struct nodes *nodes)
{
    static int64_t show_at;
    int64_t copied = 0, total = 0;
    int hosts = 0, left = 0, percent;
    const char *name = slowest(nodes, &percent);

    for (int i = 0; i < nodes->n; i++) {
        const struct node_link *l = &nodes->link[i];
        hosts += l->to_copy > 0;
        left += l->to_copy > 0 && !l->greeted && !l->lost;
        copied += l->copied;
        total += l->to_copy;
    }
    if (left && !show_at)
        show_at = clock_ms() + FIRST_MS;
    if (!left || clock_ms() < show_at)
        return;
    show_at = clock_ms() + SHOW_MS;
    log_info(
        "copying muster to %d host%s that had not this build: %lld of %lld MiB, %s is "
        "at %d %%",
        hosts, str_s(hosts), (long long)(copied / MIB), (long long)(total / MIB), name,
        percent);
}
