/* Ways in: key files and the agent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/ssh_link.h"

/* --- what there is ------------------------------------------------------------------ */

static void note(struct ssh_hop *h, const char *what, const char *why)
{
    str_addf(&h->tried, "%s%s: %s", h->tried.len ? "; " : "", what, why);
}

static void add_way(struct ssh_hop *h, const char *file, int given)
{
    h->way = xrealloc(h->way, (size_t)h->n_ways + 1, sizeof(*h->way));
    h->way[h->n_ways++] = (struct ssh_candidate){ xstrdup(file), given };
}

/* IdentityAgent's value: a path, $VARIABLE or SSH_AUTH_SOCK (the caller's to free()); ""
 * when the variable is not set; NULL: an error. */
static char *agent_path(const struct ssh_host *host, struct err *err)
{
    const char *word = host->agent ? host->agent : "SSH_AUTH_SOCK", *value;

    if (strcmp(word, "SSH_AUTH_SOCK") == 0)
        value = getenv(word);
    else if (word[0] == '$' && word[1] != '{')
        value = getenv(word + 1);
    else
        return ssh_config_path(host, word, err);
    return xstrdup(value ? value : "");
}

/* Is there an agent to ask?  libssh is told its socket. */
static int agent_of(struct ssh_hop *h, struct err *err)
{
    const struct ssh_host *host = h->host;
    const char *why = NULL;
    char *path;

    if (host->agent && strcasecmp(host->agent, "none") == 0)
        why = "not asked (IdentityAgent none)";
    if (why) {
        note(h, "agent", why);
        return 0;
    }
    path = agent_path(host, err);
    if (!path)
        return -1;
    if (!*path)
        why = "none runs (SSH_AUTH_SOCK is not set)";
    else if (ssh_options_set(h->session, SSH_OPTIONS_IDENTITY_AGENT, path) < 0)
        why = ssh_get_error(h->session);
    if (why)
        note(h, "agent", why);
    free(path);
    return !why;
}

/* Files that the configuration names, then the agent, or the agent and then the files
 * everybody may have: a server counts refusals. */
static int list_ways(struct ssh_hop *h, struct err *err)
{
    const struct ssh_host *host = h->host;
    int agent = agent_of(h, err);

    if (agent < 0)
        return -1;
    /* IdentitiesOnly: the agent's keys only in the place of a file that is locked. */
    h->spare_agent = agent && host->identities_only;
    if (agent && !host->identity_given && !h->spare_agent)
        add_way(h, NULL, 1);
    for (int i = 0; i < host->identity.n; i++) {
        char *path;
        if (strcasecmp(host->identity.item[i], "none") == 0)
            continue;
        path = ssh_config_path(host, host->identity.item[i], err);
        if (!path)
            return -1;
        add_way(h, path, host->identity_given);
        free(path);
    }
    if (agent && host->identity_given && !h->spare_agent)
        add_way(h, NULL, 1);
    return 0;
}

/* --- one key file ------------------------------------------------------------------- */

/* NOLINTNEXTLINE(readability-non-const-parameter): libssh's signature */
static int ask_passphrase(const char *prompt, char *buf, size_t n, int echo, int verify,
                          void *asked)
{
    (void)prompt;
    (void)buf;
    (void)n;
    (void)echo;
    (void)verify;
    *(int *)asked = 1;
    return -1;
}

/* h->key, or NULL with the reason noted. */
static void load_key(struct ssh_hop *h, const struct ssh_candidate *way)
{
    struct stat st;
    int asked = 0;

    if (stat(way->file, &st) < 0) {
        if (way->given || errno != ENOENT)
            note(h, way->file, strerror(errno));
        return;
    }
    if (st.st_uid == getuid() && (st.st_mode & 077)) {
        note(h, way->file, "others may read it, so it is not used: chmod 600 it");
        return;
    }
    if (ssh_pki_import_privkey_file(way->file, NULL, ask_passphrase, &asked, &h->key) ==
        SSH_OK)
        return;
    h->key = NULL;
    note(h, way->file,
         asked ? "needs a passphrase, which muster does not ask for: ssh-add it"
               : "is no private key that libssh can read");
    if (asked && h->spare_agent) {
        h->spare_agent = 0;
        add_way(h, NULL, 1); /* moves *way */
    }
}

/* --- the steps ---------------------------------------------------------------------- */

static int refused(struct ssh_hop *h, const char *how, struct err *err)
{
    int allowed = ssh_userauth_list(h->session, NULL);

    return err_set(err, ERR_FAILED, "%s: user %s is not let in%s. Tried: %s. %s",
                   h->name, h->host->user, how,
                   h->tried.len ? h->tried.text : "nothing, there is no key",
                   allowed && !(allowed & SSH_AUTH_METHOD_PUBLICKEY)
                       ? "The server takes no keys; muster uses nothing else"
                       : "Add the public key to ~/.ssh/authorized_keys there "
                         "(ssh-copy-id), or name user and key in ~/.ssh/config");
}

/* 1 in, 0 again, -1 failed for good, 2 this way is refused. */
static int answer(struct ssh_hop *h, int rc, const char *what, struct err *err)
{
    switch (rc) {
    case SSH_AUTH_SUCCESS:
        return 1;
    case SSH_AUTH_AGAIN:
        return 0;
    case SSH_AUTH_DENIED:
        note(h, what, "refused");
        return 2;
    case SSH_AUTH_PARTIAL:
        note(h, what, "taken, but the server wants more than a key");
        return refused(h, "", err);
    default:
        note(h, what, ssh_get_error(h->session));
        if (ssh_is_connected(h->session))
            return 2;
        return refused(h, " and was disconnected", err);
    }
}

/* What is allowed: asked by trying nothing. */
static int ask(struct ssh_hop *h, struct err *err)
{
    int rc = ssh_userauth_none(h->session, NULL);

    if (rc == SSH_AUTH_AGAIN)
        return 0;
    if (rc == SSH_AUTH_SUCCESS)
        return 1;
    if (rc == SSH_AUTH_ERROR)
        return err_set(err, ERR_SYSTEM, "%s: %s", h->name, ssh_get_error(h->session));
    if (!(ssh_userauth_list(h->session, NULL) & SSH_AUTH_METHOD_PUBLICKEY))
        return refused(h, "", err);
    return list_ways(h, err) < 0 ? -1 : 2;
}

static int try_way(struct ssh_hop *h, const struct ssh_candidate *way, struct err *err)
{
    if (!way->file)
        return answer(h, ssh_userauth_agent(h->session, NULL), "agent", err);
    if (!h->key)
        load_key(h, way);
    if (!h->key)
        return 2;
    return answer(h, ssh_userauth_publickey(h->session, NULL, h->key), way->file, err);
}

int ssh_auth_step(struct ssh_hop *h, struct err *err)
{
    for (;;) {
        int rc = h->way_at < 0 ? ask(h, err) : try_way(h, &h->way[h->way_at], err);
        if (rc < 2)
            return rc;
        if (h->key) {
            ssh_key_free(h->key);
            h->key = NULL;
        }
        if (++h->way_at >= h->n_ways)
            return refused(h, "", err);
    }
}
