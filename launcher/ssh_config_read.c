/* Files and Includes. */
#include "launcher/ssh_config_read.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/ssh_words.h"

enum { FILE_LIMIT = 1 << 20, PROBLEM_LIMIT = 20, INCLUDE_LIMIT = 1000 };

void ssh_config_problem(struct ssh_reader *r, const struct ssh_place *p,
                        const char *fmt, ...)
{
    va_list ap;
    char *text;

    if (++r->problems > PROBLEM_LIMIT) {
        r->stop = 1;
        return;
    }
    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    err_append(r->err, ERR_USAGE, "%s:%d: %s", p->file, p->line, text);
    free(text);
}

/* A configuration that others may write decides where we connect to. */
static int only_ours(const struct stat *st)
{
    return (st->st_uid == 0 || st->st_uid == getuid()) && (st->st_mode & 022) == 0;
}

static void read_lines(struct ssh_reader *r, struct ssh_place *p, FILE *fp)
{
    char *line = NULL, *rest, *keyword;
    size_t room = 0;

    while (!r->stop && getline(&line, &room, fp) >= 0) {
        p->line++;
        rest = ssh_words_keyword(line, &keyword);
        if (!rest)
            continue;
        ssh_config_line(r, p, keyword, rest);
        free(keyword);
    }
    free(line);
}

/* `from` is the Include's place, or NULL. */
static void read_file(struct ssh_reader *r, struct ssh_place *p, int flags,
                      const struct ssh_place *from)
{
    struct ssh_place nowhere = { .file = p->file };
    struct stat st;
    /* a FIFO would hold us */
    int fd = open(p->file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *fp = fd >= 0 ? fdopen(fd, "r") : NULL;

    if (!fp) {
        if (errno == ENOENT && (flags & SSH_READ_MUST))
            err_append(r->err, ERR_MISSING, "%s: no such file", p->file);
        else if (errno != ENOENT)
            ssh_config_problem(r, from ? from : &nowhere, "cannot read %s: %s", p->file,
                               strerror(errno));
        r->problems += errno == ENOENT && (flags & SSH_READ_MUST);
        return;
    }
    if (fstat(fileno(fp), &st) < 0 || st.st_size > FILE_LIMIT ||
        (!S_ISREG(st.st_mode) && strcmp(p->file, "/dev/null") != 0))
        ssh_config_problem(r, from ? from : &nowhere,
                           "%s is not a file of at most %d bytes", p->file, FILE_LIMIT);
    else if ((flags & SSH_READ_CHECK) && !only_ours(&st))
        ssh_config_problem(r, from ? from : &nowhere,
                           "%s belongs to or can be written by others: chmod go-w it",
                           p->file);
    else
        read_lines(r, p, fp);
    fclose(fp);
}

void ssh_config_read(struct ssh_reader *r, const char *file, int flags)
{
    struct ssh_place p = { .file = file,
                           .active = 1,
                           .user_file = flags & SSH_READ_USER };

    read_file(r, &p, flags, NULL);
}

/* Every file of the pattern sees the block of the Include line, and leaves it alone. */
static void include_glob(struct ssh_reader *r, const struct ssh_place *p,
                         const char *pattern)
{
    glob_t found;
    int rc = glob(pattern, GLOB_TILDE, NULL, &found);

    if (rc != 0 && rc != GLOB_NOMATCH)
        ssh_config_problem(r, p, "Include %s: cannot be read", pattern);
    if (rc != 0)
        return;
    if (found.gl_pathc > INCLUDE_LIMIT)
        ssh_config_problem(r, p, "Include %s: over %d files", pattern, INCLUDE_LIMIT);
    for (size_t i = 0; i < found.gl_pathc && i < INCLUDE_LIMIT && !r->stop; i++) {
        struct ssh_place in = { .file = found.gl_pathv[i],
                                .user_file = p->user_file,
                                .depth = p->depth + 1,
                                .never = p->never || !p->active,
                                .active = p->active };
        read_file(r, &in, SSH_READ_CHECK, p);
    }
    globfree(&found);
}

void ssh_config_include(struct ssh_reader *r, struct ssh_place *p,
                        const struct strlist *args)
{
    if (p->depth >= SSH_CONFIG_DEPTH) {
        ssh_config_problem(r, p, "Include: over %d files deep, or in a circle",
                           SSH_CONFIG_DEPTH);
        r->stop = 1;
        return;
    }
    for (int i = 0; i < args->n && !r->stop; i++) {
        const char *a = args->item[i];
        char *pattern;
        if (a[0] == '~' && p->user_file && (a[1] == '/' || !a[1]))
            pattern = xasprintf("%s%s", r->home, a + 1);
        else if (a[0] == '/' || (a[0] == '~' && p->user_file))
            pattern = xstrdup(a);
        else
            pattern = xasprintf("%s/%s%s", p->user_file ? r->home : "/etc",
                                p->user_file ? ".ssh/" : "ssh/", a);
        include_glob(r, p, pattern);
        free(pattern);
    }
}
