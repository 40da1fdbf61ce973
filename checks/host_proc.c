/* host_proc.c - what processes of this machine hold, from /proc. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/host.h"

enum { NAMED = 8 };

/* Calls see(PID) for every process; stops when it says 1. */
static int each_process(const char *root, int (*see)(const char *proc, void *arg),
                        void *arg)
{
    char *path = xasprintf("%s/proc", root);
    DIR *d = opendir(path);
    struct dirent *e;
    int found = 0;

    while (!found && d && (e = readdir(d))) {
        char *one;

        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        one = xasprintf("%s/%s", path, e->d_name);
        found = see(one, arg);
        free(one);
    }
    if (d)
        closedir(d);
    free(path);
    return found;
}

static int file_mentions(const char *proc, const char *file, const char *word)
{
    char *path = xasprintf("%s/%s", proc, file), *line = NULL;
    FILE *fp = fopen(path, "re");
    size_t room = 0;
    int found = 0;

    while (fp && !found && getline(&line, &room, fp) > 0)
        found = strstr(line, word) != NULL;
    if (fp)
        fclose(fp);
    free(line);
    free(path);
    return found;
}

static int has_open(const char *proc, const char *target)
{
    char *path = xasprintf("%s/fd", proc), link[4096];
    DIR *d = opendir(path);
    struct dirent *e;
    int found = 0;

    while (!found && d && (e = readdir(d))) {
        char *one = xasprintf("%s/%s", path, e->d_name);
        ssize_t n = readlink(one, link, sizeof(link) - 1);

        if (n > 0) {
            link[n] = '\0';
            found = strcmp(link, target) == 0;
        }
        free(one);
    }
    if (d)
        closedir(d);
    free(path);
    return found;
}

/* A segment as processes see it: without the test's root. */
static int holds(const char *proc, void *arg)
{
    const char *target = arg;

    return file_mentions(proc, "maps", target) || has_open(proc, target);
}

static void add_name(struct str *text, int n, const char *name)
{
    if (n <= NAMED)
        str_addf(text, "%s%s", n > 1 ? ", " : "", name);
    else if (n == NAMED + 1)
        str_adds(text, ", ...");
}

int host_stale_segments(const char *root, const char *dir, struct str *text)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    str_adds(text, "");
    while (d && (e = readdir(d))) {
        char *seen;

        if (strncmp(e->d_name, "nccl-", 5) != 0 &&
            strncmp(e->d_name, "vader_segment.", 14) != 0)
            continue;
        seen = xasprintf("/dev/shm/%s", e->d_name);
        if (!each_process(root, holds, seen))
            add_name(text, ++n, seen);
        free(seen);
    }
    if (d)
        closedir(d);
    return n;
}

struct orphans {
    struct str *text;
    int n;
};

/* Field 2 of stat is the name in brackets, 4 the parent. */
static int see_orphan(const char *proc, void *arg)
{
    struct orphans *o = arg;
    char *path = xasprintf("%s/stat", proc), line[512] = "", *name, *end;
    FILE *fp = fopen(path, "re");

    if (fp && !fgets(line, sizeof(line), fp))
        *line = '\0';
    if (fp)
        fclose(fp);
    free(path);
    name = strchr(line, '(');
    end = name ? strrchr(name, ')') : NULL;
    if (!end || strlen(end) < 5)
        return 0;
    *end = '\0';
    if ((strcmp(name + 1, "muster-train") == 0 ||
         strcmp(name + 1, "muster-probe") == 0) &&
        end[2] != 'Z' && strtol(end + 4, NULL, 10) == 1) {
        char *one = xasprintf("%s (pid %ld)", name + 1, strtol(line, NULL, 10));

        add_name(o->text, ++o->n, one);
        free(one);
    }
    return 0;
}

int host_leftovers(const char *root, struct str *text)
{
    struct orphans o = { text, 0 };

    str_adds(text, "");
    each_process(root, see_orphan, &o);
    return o.n;
}
