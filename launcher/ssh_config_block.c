/* Host and Match: which lines are meant for this host. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/ssh_config_read.h"
#include "launcher/ssh_words.h"

void ssh_config_on_host(struct ssh_reader *r, struct ssh_place *p,
                        const struct strlist *args)
{
    p->active = 0;
    for (int i = 0; i < args->n && !p->never; i++) {
        const char *pattern = args->item[i];
        int negated = pattern[0] == '!';
        if (!ssh_pattern_matches(r->name, pattern + negated))
            continue;
        p->active = !negated;
        if (negated)
            return;
    }
}

/* The name to connect to, as far as it is known by now. */
static char *host_by_now(const struct ssh_reader *r)
{
    char *host = r->h->host ? ssh_config_host_name(r->h->host, r->name) : NULL;

    return host ? host : xstrdup(r->name);
}

static int is_host(const struct ssh_reader *r, const char *list)
{
    char *host = host_by_now(r);
    int yes = ssh_patterns_match(host, list, 1) == 1;

    free(host);
    return yes;
}

static int is_original(const struct ssh_reader *r, const char *list)
{
    return ssh_patterns_match(r->name, list, 1) == 1;
}

static int is_user(const struct ssh_reader *r, const char *list)
{
    return ssh_patterns_match(r->h->user ? r->h->user : r->local_user, list, 0) == 1;
}

static int is_local_user(const struct ssh_reader *r, const char *list)
{
    return ssh_patterns_match(r->local_user, list, 0) == 1;
}

static int is_final(const struct ssh_reader *r, const char *list)
{
    (void)list;
    return r->final;
}

static const struct criterion {
    const char *word;
    int takes_list;
    int (*holds)(const struct ssh_reader *r, const char *list);
} criteria[] = {
    { "host", 1, is_host },   { "originalhost", 1, is_original },
    { "user", 1, is_user },   { "localuser", 1, is_local_user },
    { "final", 0, is_final }, { "canonical", 0, is_final },
};

static const struct criterion *find_criterion(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(criteria); i++)
        if (strcasecmp(word, criteria[i].word) == 0)
            return &criteria[i];
    return NULL;
}

/* One criterion, args[*i]; its list, if it takes one, is stepped over.  -1: the line is
 * refused. */
static int holds(struct ssh_reader *r, const struct ssh_place *p,
                 const struct strlist *args, int *i, int wanted)
{
    const char *word = args->item[*i];
    int negated = word[0] == '!';
    const struct criterion *c = find_criterion(word += negated);

    if (!c && wanted)
        ssh_config_problem(r, p, "Match %s is not supported by muster", word);
    if (!c)
        return -1;
    if (strcasecmp(word, "final") == 0)
        r->want_final = 1;
    if (c->takes_list && ++*i >= args->n) {
        ssh_config_problem(r, p, "Match %s wants a list of patterns", word);
        return -1;
    }
    return c->holds(r, args->item[*i]) != negated;
}

/* Is this the word "all", which ends a line and stands behind one criterion at most? */
static int is_all(const char *word)
{
    return strcasecmp(word + (word[0] == '!'), "all") == 0;
}

void ssh_config_on_match(struct ssh_reader *r, struct ssh_place *p,
                         const struct strlist *args)
{
    int result = !p->never, before = 0, rc;

    p->active = 0;
    for (int i = 0; i < args->n; i++, before++) {
        if (is_all(args->item[i])) {
            if (before > 1 || i + 1 < args->n)
                ssh_config_problem(r, p, "Match all cannot be combined with others");
            p->active = result && args->item[i][0] != '!';
            return;
        }
        rc = holds(r, p, args, &i, result);
        if (rc < 0)
            return;
        result = result && rc;
    }
    p->active = result;
}
