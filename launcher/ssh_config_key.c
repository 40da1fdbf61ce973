/* Keywords: one table says where each value goes. */
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/ssh_config_read.h"
#include "launcher/ssh_words.h"

struct keyword;

/* `args` has at least one item; `rest` is the line behind the keyword.  The block is
 * p->active; what is wrong with a value is said whether it is or not. */
typedef void (*keyword_fn)(struct ssh_reader *r, struct ssh_place *p,
                           const struct keyword *k, const struct strlist *args);

struct keyword {
    const char *word; /* as the manual writes it; letters match in either case */
    keyword_fn read;
    size_t at;           /* into struct ssh_host */
    int many;            /* takes any number of arguments */
    const char *allowed; /* keyword_allow(): the only value that changes nothing */
};

static void *field(const struct ssh_reader *r, const struct keyword *k)
{
    return (char *)r->h + k->at;
}

static void read_text(struct ssh_reader *r, struct ssh_place *p,
                      const struct keyword *k, const struct strlist *args)
{
    char **to = field(r, k);

    if (p->active && !*to)
        *to = xstrdup(args->item[0]);
}

static void read_port(struct ssh_reader *r, struct ssh_place *p,
                      const struct keyword *k, const struct strlist *args)
{
    int *to = field(r, k), port = ssh_words_port(args->item[0]);

    if (!port)
        ssh_config_problem(r, p, "%s is not a port (1 to 65535)", args->item[0]);
    else if (p->active && *to == 0)
        *to = port;
}

/* Kept as 1 + value until the end: 0 is "not given". */
static void read_bool(struct ssh_reader *r, struct ssh_place *p,
                      const struct keyword *k, const struct strlist *args)
{
    static const char *const words[] = { "no", "yes", "false", "true" };
    int *to = field(r, k);

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcasecmp(args->item[0], words[i]) == 0) {
            if (p->active && *to == 0)
                *to = 1 + (int)(i & 1);
            return;
        }
    ssh_config_problem(r, p, "%s is neither yes nor no", args->item[0]);
}

/* "none" and lengths of time: 90, 1m30s, 1h. */
static int seconds_of(const char *text)
{
    static const char units[] = "smhdw";
    static const int length[] = { 1, 60, 3600, 86400, 604800 };
    long total = 0;

    while (*text) {
        char *end;
        const char *unit;
        long v = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : -1;
        if (v < 0 || v > 1000000)
            return -1;
        unit = *end ? strchr(units, tolower((unsigned char)*end)) : units;
        if (!unit)
            return -1;
        total += v * length[unit - units];
        if (total > 10000000)
            return -1;
        text = *end ? end + 1 : end;
    }
    return (int)total;
}

static void read_seconds(struct ssh_reader *r, struct ssh_place *p,
                         const struct keyword *k, const struct strlist *args)
{
    int *to = field(r, k), s = 0;

    if (strcasecmp(args->item[0], "none") != 0)
        s = seconds_of(args->item[0]);
    if (s < 0)
        ssh_config_problem(r, p, "%s is not a length of time", args->item[0]);
    else if (p->active && *to == 0)
        *to = s;
}

static void read_family(struct ssh_reader *r, struct ssh_place *p,
                        const struct keyword *k, const struct strlist *args)
{
    const char *word = args->item[0];

    if (strcasecmp(word, "inet") != 0 && strcasecmp(word, "inet6") != 0 &&
        strcasecmp(word, "any") != 0)
        ssh_config_problem(r, p, "%s is not any, inet or inet6", word);
    else
        read_text(r, p, k, args);
}

/* Adds up, each file once. */
static void read_identity(struct ssh_reader *r, struct ssh_place *p,
                          const struct keyword *k, const struct strlist *args)
{
    struct strlist *to = field(r, k);

    if (!p->active)
        return;
    for (int i = 0; i < to->n; i++)
        if (strcmp(to->item[i], args->item[0]) == 0)
            return;
    if (to->n >= 100)
        ssh_config_problem(r, p, "over 100 IdentityFiles");
    else
        strlist_add(to, args->item[0]);
}

/* All files of the first line. */
static void read_files(struct ssh_reader *r, struct ssh_place *p,
                       const struct keyword *k, const struct strlist *args)
{
    struct strlist *to = field(r, k);

    if (p->active && to->n == 0)
        strlist_copy(to, args);
}

/* Each of a comma list is an address; "none": no jump, whatever follows. */
static int jumps_hold(const char *list)
{
    int ok = 1;

    while (ok && *list) {
        size_t n = strcspn(list, ",");
        char *one = xstrndup(list, n), *user = NULL, *host = NULL;
        int port;
        ok = ssh_words_address(one, &user, &host, &port) == 0;
        free(one);
        free(user);
        free(host);
        list += n;
        if (*list && !*++list)
            ok = 0;
    }
    return ok;
}

static void read_jump(struct ssh_reader *r, struct ssh_place *p,
                      const struct keyword *k, const struct strlist *args)
{
    char **to = field(r, k);
    const char *list = args->item[0];

    if (strcasecmp(list, "none") != 0 && !jumps_hold(list))
        ssh_config_problem(r, p, "ProxyJump %s is not [user@]host[:port],...", list);
    else if (p->active && !*to && !r->no_jump)
        *to = xstrdup(strcasecmp(list, "none") == 0 ? "none" : list);
}

/* Whichever of the two stands first keeps the other out. */
static void read_command(struct ssh_reader *r, struct ssh_place *p,
                         const struct keyword *k, const struct strlist *args)
{
    char **to = field(r, k);

    if (!p->active || *to || r->no_jump)
        return;
    if (strcasecmp(args->item[0], "none") == 0)
        r->no_jump = 1;
    else
        ssh_config_problem(r, p,
                           "ProxyCommand is not supported by muster, which starts no "
                           "shell: use ProxyJump");
}

static void refuse(struct ssh_reader *r, struct ssh_place *p, const struct keyword *k,
                   const struct strlist *args)
{
    if (p->active && !(k->allowed && strcasecmp(args->item[0], k->allowed) == 0))
        ssh_config_problem(r, p, "%s is not supported by muster", k->word);
}

static void on_host(struct ssh_reader *r, struct ssh_place *p, const struct keyword *k,
                    const struct strlist *args)
{
    (void)k;
    ssh_config_on_host(r, p, args);
}

static void on_match(struct ssh_reader *r, struct ssh_place *p, const struct keyword *k,
                     const struct strlist *args)
{
    (void)k;
    ssh_config_on_match(r, p, args);
}

static void on_include(struct ssh_reader *r, struct ssh_place *p,
                       const struct keyword *k, const struct strlist *args)
{
    (void)k;
    ssh_config_include(r, p, args);
}

#define AT(member) offsetof(struct ssh_host, member)

static const struct keyword keywords[] = {
    { "Host", on_host, 0, 1, NULL },
    { "Match", on_match, 0, 1, NULL },
    { "Include", on_include, 0, 1, NULL },
    { "HostName", read_text, AT(host), 0, NULL },
    { "Port", read_port, AT(port), 0, NULL },
    { "User", read_text, AT(user), 0, NULL },
    { "IdentityFile", read_identity, AT(identity), 0, NULL },
    { "IdentitiesOnly", read_bool, AT(identities_only), 0, NULL },
    { "IdentityAgent", read_text, AT(agent), 0, NULL },
    { "ProxyJump", read_jump, AT(jump), 0, NULL },
    { "ProxyCommand", read_command, AT(jump), 1, NULL },
    { "UserKnownHostsFile", read_files, AT(user_known), 1, NULL },
    { "GlobalKnownHostsFile", read_files, AT(global_known), 1, NULL },
    { "HostKeyAlias", read_text, AT(key_alias), 0, NULL },
    { "ConnectTimeout", read_seconds, AT(timeout_s), 0, NULL },
    { "AddressFamily", read_family, AT(family), 0, NULL },
    { "CanonicalizeHostname", refuse, 0, 0, "no" },
    { "BindAddress", refuse, 0, 0, NULL },
    { "BindInterface", refuse, 0, 0, NULL },
};

static const struct keyword *find(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (strcasecmp(word, keywords[i].word) == 0)
            return &keywords[i];
    return NULL;
}

void ssh_config_line(struct ssh_reader *r, struct ssh_place *p, const char *keyword,
                     const char *rest)
{
    const struct keyword *k = find(keyword);
    struct strlist args = { 0 };

    if (k)
        keyword = k->word;
    if (!*rest)
        ssh_config_problem(r, p, "%s has no value", keyword);
    else if (ssh_words_split(rest, &args) < 0)
        ssh_config_problem(r, p, "%s: a quote is not closed", keyword);
    else if (k && (args.n == 0 || !args.item[0][0]))
        ssh_config_problem(r, p, "%s has an empty value", keyword);
    else if (k && !k->many && args.n > 1)
        ssh_config_problem(r, p, "%s: '%s' is one value too many", keyword,
                           args.item[1]);
    else if (k)
        k->read(r, p, k, &args);
    strlist_release(&args);
}
