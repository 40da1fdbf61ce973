/* The interfaces of this machine, live and as `ip -br addr` prints them. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/net_look.h"

static struct net_if *add(struct net_ifs *l, const char *name, size_t n, int up)
{
    struct net_if *i;

    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    i = &l->item[l->n++];
    memset(i, 0, sizeof(*i));
    snprintf(i->name, sizeof(i->name), "%.*s", (int)n, name);
    i->up = up;
    i->prefix = -1;
    return i;
}

/* The bytes of an address; NULL: of another kind. */
static const unsigned char *bytes_of(const struct sockaddr *a, int *n)
{
    *n = a && a->sa_family == AF_INET ? 4 : 16;
    if (a && a->sa_family == AF_INET)
        return (const void *)&((const struct sockaddr_in *)(const void *)a)->sin_addr;
    if (a && a->sa_family == AF_INET6)
        return (const void *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return NULL;
}

static int bits_of(const struct sockaddr *mask)
{
    const unsigned char *m;
    int n, bits = 0;

    m = bytes_of(mask, &n);
    for (int i = 0; m && i < n; i++)
        bits += __builtin_popcount(m[i]);
    return m ? bits : -1;
}

void net_ifs_live(struct net_ifs *out)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        int n, up = (a->ifa_flags & IFF_UP) && (a->ifa_flags & IFF_RUNNING);
        const unsigned char *bytes = bytes_of(a->ifa_addr, &n);
        struct net_if *i;

        if (!bytes)
            continue;
        i = add(out, a->ifa_name, strlen(a->ifa_name), up);
        inet_ntop(a->ifa_addr->sa_family, bytes, i->address, sizeof(i->address));
        i->prefix = bits_of(a->ifa_netmask);
    }
    freeifaddrs(all);
}

/* "eth0@if6   UP   192.0.2.1/24 fe80::1/64 " */
static void parse_line(char *line, struct net_ifs *out)
{
    char *save, *name = strtok_r(line, " \t", &save), *state, *address;
    int n = 0, up;

    state = name ? strtok_r(NULL, " \t", &save) : NULL;
    if (!state)
        return;
    up = strcmp(state, "DOWN") != 0; /* lo says UNKNOWN */
    while ((address = strtok_r(NULL, " \t", &save))) {
        struct net_if *i = add(out, name, strcspn(name, "@"), up);
        size_t len = strcspn(address, "/");
        snprintf(i->address, sizeof(i->address), "%.*s", (int)len, address);
        if (address[len])
            i->prefix = (int)strtol(address + len + 1, NULL, 10);
        n++;
    }
    if (!n)
        add(out, name, strcspn(name, "@"), up);
}

void net_ifs_parse(const char *text, struct net_ifs *out)
{
    char *copy = xstrdup(text), *save, *line;

    for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        parse_line(line, out);
    free(copy);
}

void net_ifs_release(struct net_ifs *l)
{
    free(l->item);
    memset(l, 0, sizeof(*l));
}
