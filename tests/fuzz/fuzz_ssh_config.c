/* ~/.ssh/config: any bytes are a route to the host, or an error with a reason. */
#include <strings.h>

#include "base/err.h"
#include "fuzz.h"
#include "launcher/ssh_config.h"
#include "launcher/ssh_words.h"

/* Includes with patterns would walk this machine's folders. */
static int walks(const uint8_t *data, size_t size)
{
    int star = memchr(data, '*', size) || memchr(data, '[', size);

    for (size_t i = 0; star && i + 6 <= size; i++)
        if (strncasecmp((const char *)data + i, "nclude", 6) == 0)
            return 1;
    return 0;
}

static void expand(const struct ssh_host *h, const struct strlist *l)
{
    for (int i = 0; i < l->n; i++) {
        struct err err = ERR_INIT;
        char *path = ssh_config_path(h, l->item[i], &err);
        if (!path && err.code == ERR_NONE)
            abort();
        free(path);
        err_release(&err);
    }
}

static void check_route(const struct ssh_route *r)
{
    if (r->n < 1)
        abort();
    for (int i = 0; i < r->n; i++) {
        const struct ssh_host *h = &r->hop[i];
        if (!h->host || !h->user || h->port < 1 || h->port > 65535)
            abort();
        expand(h, &h->identity);
        expand(h, &h->user_known);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const hosts[] = { "node-a", "svc@gn01.cluster:2200" };
    char path[64];
    int fd;

    if (size > 65536 || walks(data, size))
        return 0;
    fd = fuzz_file(data, size, path);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct err err = ERR_INIT;
        struct ssh_route r;
        if (ssh_route_make(hosts[i], path, &r, &err) < 0) {
            if (err.code == ERR_NONE)
                abort();
        } else {
            check_route(&r);
            ssh_route_release(&r);
        }
        err_release(&err);
    }
    close(fd);
    return 0;
}
