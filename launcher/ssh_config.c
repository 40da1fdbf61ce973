#include "launcher/ssh_config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/ssh_config_read.h"
#include "launcher/ssh_words.h"

enum { JUMPS = 16 };

static const char *const default_keys[] = {
    "~/.ssh/id_rsa",
    "~/.ssh/id_ecdsa",
    "~/.ssh/id_ed25519",
};
static const char *const default_known[] = { "~/.ssh/known_hosts",
                                             "~/.ssh/known_hosts2" };
static const char *const default_global[] = { "/etc/ssh/ssh_known_hosts",
                                              "/etc/ssh/ssh_known_hosts2" };

static void read_all(struct ssh_reader *r, const char *file)
{
    char *mine = xasprintf("%s/.ssh/config", r->home);

    if (file && strcasecmp(file, "none") != 0)
        ssh_config_read(r, file, SSH_READ_USER | SSH_READ_MUST);
    else if (!file) {
        ssh_config_read(r, mine, SSH_READ_USER | SSH_READ_CHECK);
        if (!r->stop)
            ssh_config_read(r, "/etc/ssh/ssh_config", 0);
    }
    free(mine);
}

/* h->host: HostName with its tokens, else the name; letters of names are small. */
static int settle_host(struct ssh_host *h, struct err *err)
{
    char *host = h->host ? ssh_config_host_name(h->host, h->name) : xstrdup(h->name);

    if (!host)
        return err_more(err, ERR_USAGE, "%s: HostName %s has a token besides %%h, %%%%",
                        h->name, h->host);
    for (char *c = host; *c && !strchr(host, ':'); c++)
        *c = (char)tolower((unsigned char)*c);
    free(h->host);
    h->host = host;
    return 0;
}

static void add_defaults(struct strlist *to, const char *const *words, size_t n)
{
    for (size_t i = 0; to->n < (int)n && i < n; i++)
        strlist_add(to, words[i]);
}

static void drop_word(char **text, const char *word)
{
    if (*text && strcasecmp(*text, word) == 0) {
        free(*text);
        *text = NULL;
    }
}

static void settle_rest(struct ssh_host *h, const char *local_user)
{
    if (!h->user)
        h->user = xstrdup(local_user);
    if (!h->port)
        h->port = 22;
    h->identity_given = h->identity.n > 0;
    h->identities_only = h->identities_only == 2;
    drop_word(&h->jump, "none");
    drop_word(&h->family, "any");
    if (!h->identity_given)
        add_defaults(&h->identity, default_keys, ARRAY_LEN(default_keys));
    if (h->user_known.n == 0)
        add_defaults(&h->user_known, default_known, ARRAY_LEN(default_known));
    if (h->global_known.n == 0)
        add_defaults(&h->global_known, default_global, ARRAY_LEN(default_global));
}

/* The files, and once more where "Match final" asks for it. */
static int read_host(struct ssh_host *h, const char *file, struct err *err)
{
    const struct passwd *pw = getpwuid(getuid());
    char *home = xstrdup(pw ? pw->pw_dir : getenv("HOME"));
    char *user = xstrdup(pw ? pw->pw_name : getenv("USER"));
    struct err problems = ERR_INIT;
    struct ssh_reader r = { .name = h->name,
                            .h = h,
                            .home = home ? home : "/",
                            .local_user = user ? user : "unknown",
                            .err = &problems };
    int rc = 0;

    read_all(&r, file);
    if (r.problems == 0 && settle_host(h, &problems) < 0)
        r.problems++;
    if (r.problems == 0 && r.want_final) {
        r.final = 1;
        read_all(&r, file);
    }
    if (r.problems)
        rc = err_set(err, problems.code, "%s", err_text(&problems));
    else
        settle_rest(h, r.local_user);
    err_release(&problems);
    free(home);
    free(user);
    return rc;
}

int ssh_config_host(const char *address, const char *file, struct ssh_host *out,
                    struct err *err)
{
    struct ssh_host h = { 0 };

    if (ssh_words_address(address, &h.user, &h.name, &h.port) < 0)
        return err_set(err, ERR_USAGE, "'%s' is not [user@]host[:port]", address);
    if (read_host(&h, file, err) < 0) {
        ssh_host_release(&h);
        return -1;
    }
    *out = h;
    return 0;
}

void ssh_host_release(struct ssh_host *h)
{
    free(h->name);
    free(h->host);
    free(h->user);
    free(h->jump);
    free(h->agent);
    free(h->key_alias);
    free(h->family);
    strlist_release(&h->identity);
    strlist_release(&h->user_known);
    strlist_release(&h->global_known);
    memset(h, 0, sizeof(*h));
}

/* --- the way ------------------------------------------------------------------------ */

/* Is the last hop one that stands before it? */
static int in_circle(const struct ssh_route *r)
{
    const struct ssh_host *last = &r->hop[r->n - 1];

    for (int i = 0; i < r->n - 1; i++)
        if (strcmp(r->hop[i].host, last->host) == 0 && r->hop[i].port == last->port)
            return 1;
    return 0;
}

/* From the target back to the first hop.  Of a list "a,b" the last is next to the
 * target; it is reached through the others, whatever its own ProxyJump says. */
static int walk_back(struct ssh_route *r, const char *address, const char *file,
                     struct err *err)
{
    char *at = xstrdup(address), *list = NULL;
    int rc = 0;

    while (at && rc == 0) {
        const char *via, *comma;
        char *before = NULL;
        r->hop = xrealloc(r->hop, (size_t)r->n + 1, sizeof(*r->hop));
        rc = ssh_config_host(at, file, &r->hop[r->n], err);
        if (rc < 0)
            break;
        r->n++;
        if (in_circle(r) || r->n > JUMPS) {
            rc = err_set(err, ERR_USAGE, "%s: its ProxyJump goes in a circle at %s",
                         address, at);
            break;
        }
        via = list ? list : r->hop[r->n - 1].jump;
        free(at);
        comma = via ? strrchr(via, ',') : NULL;
        at = xstrdup(comma ? comma + 1 : via);
        if (comma)
            before = xstrndup(via, (size_t)(comma - via));
        free(list);
        list = before;
    }
    free(at);
    free(list);
    return rc;
}

int ssh_route_make(const char *address, const char *file, struct ssh_route *out,
                   struct err *err)
{
    struct ssh_route r = { 0 };

    if (walk_back(&r, address, file, err) < 0) {
        ssh_route_release(&r);
        return -1;
    }
    for (int i = 0; i < r.n / 2; i++) {
        struct ssh_host h = r.hop[i];
        r.hop[i] = r.hop[r.n - 1 - i];
        r.hop[r.n - 1 - i] = h;
    }
    *out = r;
    return 0;
}

void ssh_route_release(struct ssh_route *r)
{
    for (int i = 0; i < r->n; i++)
        ssh_host_release(&r->hop[i]);
    free(r->hop);
    memset(r, 0, sizeof(*r));
}
