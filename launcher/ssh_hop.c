/* One hop: libssh's session over a socket that is connected. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/ssh_link.h"

static int set_options(struct ssh_hop *h, struct err *err)
{
    const struct ssh_host *host = h->host;
    unsigned port = (unsigned)host->port;
    int no = 0, yes = 1;
    ssh_session s = h->session;

    if (ssh_options_set(s, SSH_OPTIONS_PROCESS_CONFIG, &no) < 0 ||
        ssh_options_set(s, SSH_OPTIONS_HOST, host->host) < 0 ||
        ssh_options_set(s, SSH_OPTIONS_PORT, &port) < 0 ||
        ssh_options_set(s, SSH_OPTIONS_USER, host->user) < 0 ||
        ssh_options_set(s, SSH_OPTIONS_KNOWNHOSTS, "/dev/null") < 0 ||
        ssh_options_set(s, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null") < 0 ||
        ssh_options_set(s, SSH_OPTIONS_NODELAY, &yes) < 0 ||
        ssh_options_set(s, SSH_OPTIONS_FD, &h->fd) < 0)
        return err_set(err, ERR_SYSTEM, "%s: libssh: %s", h->name, ssh_get_error(s));
    return 0;
}

int ssh_hop_start(struct ssh_hop *h, struct err *err)
{
    char *types = NULL;

    if (ssh_trust_types(h->host, &types, err) < 0)
        return -1;
    h->session = ssh_new();
    if (!h->session || set_options(h, err) < 0) {
        free(types);
        return h->session ? -1 : err_set(err, ERR_SYSTEM, "libssh: out of memory");
    }
    /* a list that libssh cannot use leaves its own one standing */
    if (types)
        ssh_options_set(h->session, SSH_OPTIONS_HOSTKEYS, types);
    free(types);
    ssh_set_blocking(h->session, 0);
    h->phase = SSH_PHASE_KEX;
    return 0;
}

int ssh_hop_kex(struct ssh_hop *h, struct err *err)
{
    int rc = ssh_connect(h->session);

    if (rc == SSH_AGAIN)
        return 0;
    if (rc != SSH_OK)
        return err_set(err, ERR_SYSTEM,
                       "%s: no SSH connection: %s (a server that is busy closes it: "
                       "MaxStartups in sshd_config)",
                       h->name, ssh_get_error(h->session));
    if (ssh_trust(h, err) < 0)
        return -1;
    h->way_at = -1;
    h->phase = SSH_PHASE_AUTH;
    return 1;
}

void ssh_hop_release(struct ssh_hop *h)
{
    if (h->ear)
        ssh_channel_free(h->ear);
    if (h->key)
        ssh_key_free(h->key);
    if (h->session) {
        /* sends what it can and frees the channels; the socket stays ours */
        ssh_disconnect(h->session);
        ssh_free(h->session);
    }
    if (h->fd >= 0)
        close(h->fd);
    if (h->pump >= 0)
        close(h->pump);
    for (int i = 0; i < h->n_ways; i++)
        free(h->way[i].file);
    free(h->way);
    free(h->name);
    str_release(&h->tried);
    str_release(&h->up);
    str_release(&h->down);
}
