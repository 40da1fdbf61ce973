#include "launcher/net_look.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "checks/ifname.h"
#include "launcher/env.h"

/* --- addresses --------------------------------------------------------------------- */

int net_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strncmp(address, "::ffff:127.", 11) == 0;
}

static struct addrinfo *look_up(const char *name)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
    struct addrinfo *found = NULL;

    return getaddrinfo(name, "9", &hints, &found) == 0 ? found : NULL;
}

static int numeric(const struct sockaddr *a, socklen_t n, char out[48])
{
    char text[64];

    if (getnameinfo(a, n, text, sizeof(text), NULL, 0, NI_NUMERICHOST) != 0)
        return -1;
    text[strcspn(text, "%")] = '\0'; /* fe80::1%eth0 */
    snprintf(out, 48, "%.47s", text);
    return 0;
}

int net_resolve(const char *name, char out[48])
{
    struct addrinfo *a = look_up(name);
    int rc = a ? numeric(a->ai_addr, a->ai_addrlen, out) : -1;

    if (a)
        freeaddrinfo(a);
    return rc;
}

/* connect() of a datagram socket asks the routing table. */
int net_address_towards(const char *host, char out[48])
{
    struct addrinfo *a = look_up(host);
    struct sockaddr_storage own;
    socklen_t n = sizeof(own);
    int fd, rc = -1;

    if (!a)
        return -1;
    fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &n) == 0)
        rc = numeric((struct sockaddr *)&own, n, out);
    if (fd >= 0)
        close(fd);
    freeaddrinfo(a);
    return rc;
}

static void network_of(const struct net_if *i, char out[64])
{
    int family = strchr(i->address, ':') ? AF_INET6 : AF_INET;
    unsigned char a[16];
    char text[48];

    *out = '\0';
    if (i->prefix < 0 || inet_pton(family, i->address, a) != 1)
        return;
    for (int bit = i->prefix; bit < (family == AF_INET ? 32 : 128); bit++)
        a[bit / 8] &= (unsigned char)~(0x80 >> bit % 8);
    if (inet_ntop(family, a, text, sizeof(text)))
        snprintf(out, 64, "%s/%d", text, i->prefix);
}

/* --- choosing ---------------------------------------------------------------------- */

static int link_local(const char *address)
{
    return strncmp(address, "fe80:", 5) == 0 || strncmp(address, "169.254.", 8) == 0;
}

static int fits(const struct net_if *i)
{
    return i->up && *i->address && !net_is_loopback(i->address) &&
           !link_local(i->address) && strcmp(i->name, "lo") != 0 &&
           strncmp(i->name, "docker", 6) != 0;
}

/* Each once, as NCCL's rules want them. */
static void as_names(const struct net_ifs *l, struct ifname_list *out)
{
    struct str s = STR_INIT;

    for (int i = 0; i < l->n; i++) {
        str_addf(&s, "%s %s", l->item[i].name, l->item[i].up ? "UP" : "DOWN");
        if (*l->item[i].address)
            str_addf(&s, " %s", l->item[i].address);
        str_adds(&s, "\n");
    }
    if (s.len)
        ifname_parse(s.text, out);
    str_release(&s);
}

/* What NCCL takes when nobody says anything. */
static void nccl_takes(const struct net_ifs *l, struct strlist *out)
{
    struct ifname_list names = { 0 };
    char *why = NULL;

    as_names(l, &names);
    ifname_choose(&names, NULL, out, &why);
    free(why);
    ifname_release(&names);
}

static const struct net_if *choose(const struct net_ifs *l, const char *address)
{
    struct strlist takes = { 0 };
    const struct net_if *found = NULL;

    for (int i = 0; address && !found && i < l->n; i++)
        if (strcmp(l->item[i].address, address) == 0 && fits(&l->item[i]))
            found = &l->item[i];
    nccl_takes(l, &takes);
    for (int k = 0; !found && k < takes.n; k++)
        for (int i = 0; !found && i < l->n; i++)
            if (str_eq(l->item[i].name, takes.item[k]) && fits(&l->item[i]))
                found = &l->item[i];
    strlist_release(&takes);
    return found;
}

static void add_name(struct str *s, const char *name)
{
    str_addf(s, "%s%s", s->len ? ", " : "", name);
}

/* IPoIB is NCCL's own first choice, and a good one. */
static void judge_nccl(const struct net_ifs *l, struct net_look *out)
{
    struct strlist takes = { 0 };
    struct str others = STR_INIT;

    nccl_takes(l, &takes);
    for (int i = 0; i < takes.n; i++)
        if (!str_eq(takes.item[i], out->interface) &&
            strncmp(takes.item[i], "ib", 2) != 0)
            add_name(&others, takes.item[i]);
    if (others.len)
        snprintf(out->why[NET_NCCL], sizeof(out->why[NET_NCCL]),
                 "NCCL would also take %.120s", others.text);
    strlist_release(&takes);
    str_release(&others);
}

/* Networks that end at this machine, with the same address on every one. */
static int is_bridge(const char *name)
{
    static const char *const starts[] = { "docker", "virbr",   "br-",   "cni",
                                          "podman", "flannel", "lxcbr", "lxdbr",
                                          "veth",   "cali",    "vxlan" };

    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return 1;
    return 0;
}

/* Of interfaces that lead somewhere it finds those that fit by itself. */
static void judge_mpi(const struct net_ifs *l, struct net_look *out)
{
    struct str others = STR_INIT;

    for (int i = 0; i < l->n; i++) {
        const struct net_if *f = &l->item[i];
        if (!f->up || !*f->address || strchr(f->address, ':') || !is_bridge(f->name) ||
            str_eq(f->name, out->interface))
            continue;
        add_name(&others, f->name);
    }
    if (others.len)
        snprintf(out->why[NET_MPI], sizeof(out->why[NET_MPI]),
                 "Open MPI would also use %.120s", others.text);
    str_release(&others);
}

/* gloo tells others the address that the machine's own name leads to (case C03). */
static void judge_gloo(const struct net_ifs *l, const char *own, struct net_look *out)
{
    int ours = 0;

    for (int i = 0; own && i < l->n; i++)
        ours |= strcmp(l->item[i].address, own) == 0 && fits(&l->item[i]);
    if (!own)
        snprintf(out->why[NET_GLOO], sizeof(out->why[NET_GLOO]),
                 "the machine's own name does not resolve");
    else if (net_is_loopback(own))
        snprintf(out->why[NET_GLOO], sizeof(out->why[NET_GLOO]),
                 "the machine's own name leads to %s", own);
    else if (!ours)
        snprintf(out->why[NET_GLOO], sizeof(out->why[NET_GLOO]),
                 "the machine's own name leads to %s, which is none of its addresses",
                 own);
}

void net_look(const struct net_ifs *l, const char *address, const char *own,
              struct net_look *out)
{
    const struct net_if *i = choose(l, address);

    memset(out, 0, sizeof(*out));
    if (!i)
        return;
    snprintf(out->interface, sizeof(out->interface), "%s", i->name);
    snprintf(out->address, sizeof(out->address), "%s", i->address);
    network_of(i, out->network);
    judge_nccl(l, out);
    judge_mpi(l, out);
    judge_gloo(l, own, out);
}

void net_look_here(const char *address, int names, struct net_look *out)
{
    struct net_ifs l = { 0 };
    char host[65] = "", own[48];
    int known = 0;

    gethostname(host, sizeof(host) - 1);
    net_ifs_live(&l);
    if (names)
        known = net_resolve(host, own) == 0;
    net_look(&l, address, known ? own : NULL, out);
    if (!names)
        *out->why[NET_GLOO] = '\0';
    net_ifs_release(&l);
}

/* --- telling ------------------------------------------------------------------------ */

const char *net_name(enum net_var v)
{
    static const char *const names[NET_VARS] = { "NCCL_SOCKET_IFNAME",
                                                 "GLOO_SOCKET_IFNAME",
                                                 "OMPI_MCA_btl_tcp_if_include" };

    return names[v];
}

char *net_value(const struct net_look *l, enum net_var v)
{
    return xasprintf("%s%s", v == NET_NCCL ? "=" : "",
                     v == NET_MPI ? l->network : l->interface);
}

void net_settings(const struct net_look *l, struct strlist *out)
{
    for (int v = 0; v < NET_VARS; v++) {
        char *value, *text;
        if (!*l->why[v])
            continue;
        value = net_value(l, (enum net_var)v);
        text = xasprintf("%s=%s", net_name((enum net_var)v), value);
        strlist_add(out, text);
        free(value);
        free(text);
    }
}

void net_apply(const struct net_look *l, struct env *env)
{
    struct strlist all = { 0 };

    net_settings(l, &all);
    for (int i = 0; i < all.n; i++) {
        char *name = xstrdup(all.item[i]), *eq = strchr(name, '=');
        *eq = '\0';
        if (strncmp(name, "OMPI_", 5) != 0 ||
            !env_get(env, "OMPI_MCA_btl_tcp_if_exclude")) /* one of them, never both */
            env_default(env, name, eq + 1);
        free(name);
    }
    strlist_release(&all);
}

int net_check(const struct net_ifs *l, const char *nccl, struct err *err)
{
    struct ifname_list names = { 0 };
    char *why = NULL;
    int rc = 0;

    if (nccl && *nccl) {
        as_names(l, &names);
        if (ifname_choose(&names, nccl, NULL, &why) < 0)
            rc = err_set(err, ERR_USAGE, "NCCL_SOCKET_IFNAME: %s", why);
        free(why);
        ifname_release(&names);
    }
    return rc;
}
