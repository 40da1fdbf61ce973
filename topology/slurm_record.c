#include "topology/slurm_record.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

/* Keys whose value is text, by the key that the record begins with: a job's Reason is
 * one word in the middle of a line. */
static const struct {
    const char *first, *key;
} free_text[] = {
    { "NodeName", "OS" },        { "NodeName", "Reason" },
    { "NodeName", "Comment" },   { "NodeName", "Extra" },
    { "JobId", "JobName" },      { "JobId", "Comment" },
    { "JobId", "AdminComment" }, { "JobId", "SystemComment" },
    { "JobId", "Extra" },        { "JobId", "Command" },
    { "JobId", "SubmitLine" },   { "JobId", "WorkDir" },
    { "JobId", "StdErr" },       { "JobId", "StdIn" },
    { "JobId", "StdOut" },       { "ReservationName", "Comment" },
};

/* Keys that stand behind those in a one-line record. */
static const char *const followers[] = {
    "RealMemory", "Reason",      "Comment",      "Extra",         "InstanceId",
    "Topology",   "UserId",      "AdminComment", "SystemComment", "Command",
    "SubmitLine", "WorkDir",     "StdErr",       "StdIn",         "StdOut",
    "Power",      "TresPerNode", "MailUser",     "MailType",      "InstanceType",
};

struct reader {
    const char *where;
    struct slurm_records *out;
    struct err *err;
    int one_line; /* the record has no second line */
};

/* The length of "KEY" when p begins with KEY=; else 0. */
static size_t key_length(const char *p)
{
    size_t n = 0;

    if (!isalpha((unsigned char)*p))
        return 0;
    while (isalnum((unsigned char)p[n]) || (p[n] && strchr("_:/-", p[n])))
        n++;
    return p[n] == '=' ? n : 0;
}

static int has_key(const struct slurm_record *r, const char *key, size_t n)
{
    for (int i = 0; i < r->n; i++)
        if (strncmp(r->pair[i].key, key, n) == 0 && r->pair[i].key[n] == '\0')
            return 1;
    return 0;
}

static int is_follower(const char *key, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(followers); i++)
        if (strlen(followers[i]) == n && strncmp(followers[i], key, n) == 0)
            return 1;
    return 0;
}

static int is_free_text(const struct slurm_record *r)
{
    for (size_t i = 0; i < ARRAY_LEN(free_text); i++)
        if (str_eq(r->pair[0].key, free_text[i].first) &&
            str_eq(r->pair[r->n - 1].key, free_text[i].key))
            return 1;
    return 0;
}

/* Does the word at p (the first of its line?) begin a new pair, or go on with the last
 * value of r? */
static size_t new_pair(const struct reader *rd, const struct slurm_record *r,
                       const char *p, int first)
{
    size_t n = key_length(p);

    if (n == 0 || first || !is_free_text(r))
        return n;
    return rd->one_line && is_follower(p, n) && !has_key(r, p, n) ? n : 0;
}

static int add_pair(struct reader *rd, struct slurm_record *r, char *word, size_t n)
{
    if (r->n == SLURM_PAIRS_MAX)
        return err_set(rd->err, ERR_USAGE, "%s:%d: a record with more than %d keys",
                       rd->where, r->line, SLURM_PAIRS_MAX);
    r->pair = xrealloc(r->pair, (size_t)r->n + 1, sizeof(*r->pair));
    word[n] = '\0';
    r->pair[r->n++] = (struct slurm_pair){ word, word + n + 1 };
    return 0;
}

/* A value with a line break in it: its lines are one again, with blanks between. */
static void join_lines(const struct slurm_record *r, const char *p)
{
    char *end = (char *)r->pair[r->n - 1].value;

    for (end += strlen(end); end < p; end++)
        *end = ' ';
}

/* The pairs of one line, whose text is cut up. */
static int read_line(struct reader *rd, struct slurm_record *r, char *line, int number)
{
    char *end = line + strlen(line), *p = line, *start;

    while (end > line && isspace((unsigned char)end[-1]))
        *--end = '\0';
    start = p += strspn(p, " \t");
    for (; *p; p += strspn(p, " \t")) {
        size_t n = new_pair(rd, r, p, p == start);
        if (n == 0 && r->n == 0)
            return err_set(rd->err, ERR_USAGE,
                           "%s:%d: '%.60s' is no KEY=VALUE, so this is no output of "
                           "scontrol show",
                           rd->where, number, p);
        if (n == 0 && p == start)
            join_lines(r, p);
        if (n) {
            /* the blanks before it end the last value */
            for (char *b = p; b > line && isspace((unsigned char)b[-1]);)
                *--b = '\0';
            if (add_pair(rd, r, p, n) < 0)
                return -1;
            p += n + 1;
        }
        p += strcspn(p, " \t");
    }
    return 0;
}

static struct slurm_record *add_record(struct slurm_records *all, int line)
{
    struct slurm_record *r;

    all->record = xrealloc(all->record, (size_t)all->n + 1, sizeof(*all->record));
    r = &all->record[all->n++];
    *r = (struct slurm_record){ .line = line };
    return r;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int read_lines(struct reader *rd)
{
    struct slurm_record *r = NULL;
    char *next;
    int number = 1;

    for (char *line = rd->out->text; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (line[strspn(line, " \t\r")] == '\0') {
            r = NULL;
            continue;
        }
        if (!r || !is_blank(*line)) {
            r = add_record(rd->out, number);
            rd->one_line = !next || !is_blank(*next);
        }
        if (read_line(rd, r, line, number) < 0)
            return -1;
    }
    return 0;
}

int slurm_records_parse(const char *text, size_t len, const char *where,
                        struct slurm_records *out, struct err *err)
{
    struct slurm_records all = { 0 };
    struct reader rd = { where, &all, err, 0 };

    if (len > SLURM_TEXT_MAX || memchr(text, '\0', len))
        return err_set(err, ERR_USAGE, "%s: %s", where,
                       len > SLURM_TEXT_MAX ? "more than 64 MiB" : "holds a NUL byte");
    all.text = xstrndup(text, len);
    if (read_lines(&rd) < 0) {
        slurm_records_release(&all);
        return -1;
    }
    *out = all;
    return 0;
}

void slurm_records_release(struct slurm_records *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->record[i].pair);
    free(r->record);
    free(r->text);
    *r = (struct slurm_records){ 0 };
}

const char *slurm_record_get(const struct slurm_record *r, const char *key)
{
    for (int i = 0; i < r->n; i++)
        if (str_eq(r->pair[i].key, key))
            return str_eq(r->pair[i].value, "(null)") ? NULL : r->pair[i].value;
    return NULL;
}
