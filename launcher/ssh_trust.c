/* Host keys: asked for by the types that are known, believed only when known. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "launcher/ssh_known.h"
#include "launcher/ssh_link.h"

/* The name and port that known_hosts has: HostKeyAlias stands alone. */
static const char *known_as(const struct ssh_host *h, int *port)
{
    *port = h->key_alias ? 0 : h->port;
    return h->key_alias ? h->key_alias : h->host;
}

static int known_files(const struct ssh_host *h, struct strlist *out, struct err *err)
{
    const struct strlist *lists[] = { &h->user_known, &h->global_known };

    for (size_t k = 0; k < ARRAY_LEN(lists); k++)
        for (int i = 0; i < lists[k]->n; i++) {
            char *path = strcasecmp(lists[k]->item[i], "none") == 0
                             ? xstrdup("none")
                             : ssh_config_path(h, lists[k]->item[i], err);
            if (!path)
                return -1;
            strlist_add(out, path);
            free(path);
        }
    return 0;
}

/* --- which types -------------------------------------------------------------------- */

/* What a type of known_hosts is called when algorithms are chosen. */
static const char *algorithms_of(const char *type)
{
    return strcmp(type, "ssh-rsa") == 0 ? "rsa-sha2-512,rsa-sha2-256" : type;
}

int ssh_trust_types(const struct ssh_host *h, char **list, struct err *err)
{
    /* libssh's own order, for those that are not known */
    static const char *const all[] = { "ssh-ed25519", "ecdsa-sha2-nistp521",
                                       "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp256",
                                       "ssh-rsa" };
    struct strlist files = { 0 }, types = { 0 };
    struct str s = STR_INIT;
    int port, rc = known_files(h, &files, err);
    const char *name = known_as(h, &port);

    if (rc == 0)
        rc = ssh_known_types(&files, name, port, &types, err);
    for (int i = 0; rc == 0 && i < types.n; i++)
        str_addf(&s, "%s%s", s.len ? "," : "", algorithms_of(types.item[i]));
    for (size_t i = 0; s.len && i < ARRAY_LEN(all); i++)
        if (!strstr(s.text, algorithms_of(all[i])))
            str_addf(&s, ",%s", algorithms_of(all[i]));
    *list = s.len ? str_take(&s) : NULL;
    strlist_release(&files);
    strlist_release(&types);
    return rc;
}

/* --- the verdict -------------------------------------------------------------------- */

struct offered {
    char *type, *base64, *fingerprint; /* owned */
};

static void offered_release(struct offered *o)
{
    free(o->type);
    free(o->base64);
    free(o->fingerprint);
}

static int get_offered(struct ssh_hop *h, struct offered *o, struct err *err)
{
    ssh_key key = NULL;
    unsigned char *hash = NULL;
    char *base64 = NULL, *print = NULL;
    size_t n = 0;

    if (ssh_get_server_publickey(h->session, &key) != SSH_OK ||
        ssh_pki_export_pubkey_base64(key, &base64) != SSH_OK ||
        ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &n) != 0) {
        ssh_key_free(key);
        ssh_string_free_char(base64);
        return err_set(err, ERR_SYSTEM, "%s: its host key cannot be read: %s", h->name,
                       ssh_get_error(h->session));
    }
    print = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, n);
    o->type = xstrdup(ssh_key_type_to_char(ssh_key_type(key)));
    o->base64 = xstrdup(base64);
    o->fingerprint = xstrdup(print ? print : "");
    ssh_string_free_char(print);
    ssh_string_free_char(base64);
    ssh_clean_pubkey_hash(&hash);
    ssh_key_free(key);
    return 0;
}

/* "ssh-ed25519" is in /etc/ssh/ssh_host_ed25519_key.pub. */
static const char *key_file_word(const char *type)
{
    if (strncmp(type, "ecdsa", 5) == 0)
        return "ecdsa";
    return strcmp(type, "ssh-rsa") == 0 ? "rsa" : "ed25519";
}

static void add_line_to_add(struct str *s, const struct ssh_hop *h,
                            const struct offered *o)
{
    int port;
    const char *name = known_as(h->host, &port);
    char *written = ssh_known_name(name, port);
    struct err none = ERR_INIT;
    char *file = ssh_config_path(h->host, h->host->user_known.item[0], &none);

    err_release(&none);
    str_addf(s,
             "Its fingerprint is %s; on that host, `ssh-keygen -lf "
             "/etc/ssh/ssh_host_%s_key.pub` must show the same. Then add this line to "
             "%s:\n%s %s %s",
             o->fingerprint, key_file_word(o->type), file ? file : "known_hosts",
             written, o->type, o->base64);
    free(written);
    free(file);
}

static int refuse(const struct ssh_hop *h, const struct ssh_known *k,
                  const struct offered *o, struct err *err)
{
    struct str s = STR_INIT;
    int rc;

    switch (k->verdict) {
    case SSH_KNOWN_REVOKED:
        str_addf(&s, "HOST KEY REVOKED: %s:%d says that the key %s must not be trusted",
                 k->file, k->line, o->fingerprint);
        break;
    case SSH_KNOWN_CHANGED:
        str_addf(
            &s,
            "HOST KEY CHANGED: %s:%d has another %s key. Somebody may stand "
            "between, or the host was installed anew. If it was, remove that line. ",
            k->file, k->line, o->type);
        add_line_to_add(&s, h, o);
        break;
    case SSH_KNOWN_OTHER:
        str_addf(
            &s,
            "its %s key is not known, though %s:%d has a %s key, which it no longer "
            "offers. Somebody may stand between, or the host was installed anew. ",
            o->type, k->file, k->line, k->type);
        add_line_to_add(&s, h, o);
        break;
    default:
        str_addf(&s, "its host key is not known. ");
        add_line_to_add(&s, h, o);
    }
    if (k->authorities)
        str_addf(&s,
                 "\n(@cert-authority: certificates of hosts are not supported; %d "
                 "line%s left out)",
                 k->authorities, str_s(k->authorities));
    if (k->unreadable)
        str_addf(&s, "\n(%d line%s of known_hosts could not be read)", k->unreadable,
                 str_s(k->unreadable));
    rc = err_set(err, ERR_FAILED, "%s: %s", h->name, s.text);
    str_release(&s);
    return rc;
}

int ssh_trust(struct ssh_hop *h, struct err *err)
{
    struct strlist files = { 0 };
    struct offered o = { 0 };
    struct ssh_known k = { 0 };
    int port, rc = known_files(h->host, &files, err);
    const char *name = known_as(h->host, &port);

    if (rc == 0)
        rc = get_offered(h, &o, err);
    if (rc == 0)
        rc = ssh_known_check(&files, name, port, o.type, o.base64, &k, err);
    if (rc == 0 && k.verdict != SSH_KNOWN_OK)
        rc = refuse(h, &k, &o, err);
    ssh_known_release(&k);
    offered_release(&o);
    strlist_release(&files);
    return rc;
}
