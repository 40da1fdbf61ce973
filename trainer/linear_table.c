#include "trainer/linear_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

static const char title[] = "muster plans of dense products 1\n";

enum { LINE = 512 };

void linear_table_release(struct linear_table *t)
{
    free(t->plan);
    *t = (struct linear_table){ 0 };
}

void linear_table_add(struct linear_table *t, const struct linear_plan *p)
{
    t->plan = xrealloc(t->plan, (size_t)t->n + 1, sizeof(*t->plan));
    t->plan[t->n++] = *p;
}

const struct linear_plan *linear_table_find(const struct linear_table *t,
                                            const int32_t key[LINEAR_KEY])
{
    for (int i = 0; i < t->n; i++)
        if (memcmp(t->plan[i].key, key, sizeof(t->plan[i].key)) == 0)
            return &t->plan[i];
    return NULL;
}

/* The next number of a line; 0 when there is none. */
static int number(char **at, int base, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = base == 10 ? (uint64_t)strtoll(*at, &end, 10) : strtoull(*at, &end, base);
    if (end == *at || errno)
        return 0;
    *at = end;
    return 1;
}

static int parse(char *line, struct linear_plan *p)
{
    uint64_t v;

    for (int i = 0; i < LINEAR_KEY; i++) {
        if (!number(&line, 10, &v) || (int64_t)v > INT32_MAX || (int64_t)v < 0)
            return 0;
        p->key[i] = (int32_t)v;
    }
    if (!number(&line, 10, &p->workspace))
        return 0;
    for (int i = 0; i < LINEAR_ALGO; i++)
        if (!number(&line, 16, &p->algo[i]))
            return 0;
    return strcmp(line, "\n") == 0;
}

static int read_lines(FILE *fp, const char *path, const char *machine,
                      struct linear_table *t, struct err *err)
{
    char line[LINE], *end;
    int at = 2;

    if (!fgets(line, sizeof(line), fp) || strcmp(line, title) != 0)
        return err_set(err, ERR_USAGE,
                       "%s: no table of plans: it does not begin with '%.*s'", path,
                       (int)sizeof(title) - 2, title);
    if (!fgets(line, sizeof(line), fp) || !(end = strchr(line, '\n')))
        return err_set(err, ERR_USAGE, "%s:2: no machine", path);
    *end = '\0';
    if (strcmp(line, machine) != 0)
        return err_set(
            err, ERR_USAGE,
            "%s: made with %s, this is %s: plans do not carry over; remove the "
            "file, or use the same library and GPU",
            path, line, machine);
    while (fgets(line, sizeof(line), fp)) {
        struct linear_plan p;

        at++;
        if (!parse(line, &p))
            return err_set(err, ERR_USAGE, "%s:%d: no plan", path, at);
        linear_table_add(t, &p);
    }
    return 0;
}

int linear_table_load(const char *path, const char *machine, struct linear_table *out,
                      struct err *err)
{
    struct linear_table t = { 0 };
    FILE *fp = fopen(path, "re");
    int rc;

    if (!fp && errno == ENOENT) {
        *out = t;
        return 0;
    }
    if (!fp)
        return err_set(err, ERR_SYSTEM, "%s: cannot be read: %s", path,
                       strerror(errno));
    rc = read_lines(fp, path, machine, &t, err);
    fclose(fp);
    if (rc == 0)
        *out = t;
    else
        linear_table_release(&t);
    return rc;
}

static void print(FILE *fp, const struct linear_plan *p)
{
    for (int i = 0; i < LINEAR_KEY; i++)
        fprintf(fp, "%d ", p->key[i]);
    fprintf(fp, "%llu", (unsigned long long)p->workspace);
    for (int i = 0; i < LINEAR_ALGO; i++)
        fprintf(fp, " %llx", (unsigned long long)p->algo[i]);
    fputc('\n', fp);
}

int linear_table_save(const char *path, const char *machine,
                      const struct linear_table *t, struct err *err)
{
    char *tmp = xasprintf("%s.%ld.tmp", path, (long)getpid());
    FILE *fp = fopen(tmp, "we");
    int bad = !fp;

    if (fp) {
        fprintf(fp, "%s%s\n", title, machine);
        for (int i = 0; i < t->n; i++)
            print(fp, &t->plan[i]);
        bad = ferror(fp);
        bad = fclose(fp) != 0 || bad || rename(tmp, path) != 0;
    }
    if (bad) {
        err_set(err, ERR_SYSTEM, "%s: cannot be written: %s", path, strerror(errno));
        unlink(tmp);
    }
    free(tmp);
    return bad ? -1 : 0;
}
