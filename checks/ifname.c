#include "checks/ifname.h"

#include <ctype.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static struct ifname *find_or_add(struct ifname_list *l, const char *name, size_t n)
{
    struct ifname *i;

    for (int k = 0; k < l->n; k++)
        if (strlen(l->item[k].name) == n && strncmp(l->item[k].name, name, n) == 0)
            return &l->item[k];
    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    i = &l->item[l->n++];
    memset(i, 0, sizeof(*i));
    snprintf(i->name, sizeof(i->name), "%.*s", (int)n, name);
    i->link_local = 1;
    return i;
}

static void add_address(struct ifname *i, int link_local)
{
    i->addresses++;
    i->link_local &= link_local;
}

void ifname_live(struct ifname_list *out)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return;
    for (struct ifaddrs *a = all; a; a = a->ifa_next) {
        struct ifname *i = find_or_add(out, a->ifa_name, strlen(a->ifa_name));
        int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_UNSPEC;

        i->up = (a->ifa_flags & IFF_UP) && (a->ifa_flags & IFF_RUNNING);
        if (family == AF_INET)
            add_address(i, 0);
        else if (family == AF_INET6)
            add_address(i, IN6_IS_ADDR_LINKLOCAL(
                               &((struct sockaddr_in6 *)a->ifa_addr)->sin6_addr));
    }
    freeifaddrs(all);
}

/* "eth0@if6   UP   192.0.2.1/24 fe80::1/64 " */
static void parse_line(char *line, struct ifname_list *out)
{
    char *save, *name = strtok_r(line, " \t", &save), *state, *address;
    struct ifname *i;

    state = name ? strtok_r(NULL, " \t", &save) : NULL;
    if (!state)
        return;
    i = find_or_add(out, name, strcspn(name, "@"));
    i->up = strcmp(state, "DOWN") != 0; /* lo says UNKNOWN */
    while ((address = strtok_r(NULL, " \t", &save)))
        add_address(i, strncmp(address, "fe80:", 5) == 0);
}

void ifname_parse(const char *text, struct ifname_list *out)
{
    char *copy = xstrdup(text), *save, *line;

    for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        parse_line(line, out);
    free(copy);
}

void ifname_release(struct ifname_list *l)
{
    free(l->item);
    memset(l, 0, sizeof(*l));
}

int ifname_matches(const char *spec, const char *name)
{
    int not = *spec == '^', exact, hit = 0;

    spec += not ;
    exact = *spec == '=';
    spec += exact;
    while (*spec) {
        size_t n = strcspn(spec, ",");

        if (n > 0 && strncmp(spec, name, n) == 0 && (!exact || name[n] == '\0'))
            hit = 1;
        spec += n + (spec[n] == ',');
    }
    return hit != not ;
}

static int usable(const struct ifname *i)
{
    return i->up && i->addresses > 0;
}

/* Unset: the first class that has any. */
static int class_of(const char *name)
{
    if (strncmp(name, "ib", 2) == 0)
        return 0;
    if (strncmp(name, "docker", 6) == 0)
        return 2;
    return strcmp(name, "lo") == 0 ? 3 : 1;
}

static int best_class(const struct ifname_list *l)
{
    int best = 4;

    for (int i = 0; i < l->n; i++)
        if (usable(&l->item[i]) && !l->item[i].link_local &&
            class_of(l->item[i].name) < best)
            best = class_of(l->item[i].name);
    return best;
}

static char *what_exists(const struct ifname_list *l, const char *spec)
{
    struct str s = STR_INIT;

    str_addf(&s, "no interface matches %s; there %s", spec ? spec : "(unset)",
             l->n ? "are" : "is none");
    for (int i = 0; i < l->n; i++)
        str_addf(&s, "%s %s%s", i ? "," : "", l->item[i].name,
                 usable(&l->item[i]) ? "" : " (down or without an address)");
    return str_take(&s);
}

int ifname_choose(const struct ifname_list *l, const char *spec, struct strlist *names,
                  char **why)
{
    int set = spec && *spec, best = best_class(l), n = 0;

    *why = NULL;
    for (int i = 0; i < l->n; i++) {
        const struct ifname *f = &l->item[i];

        if (!usable(f) || (set ? !ifname_matches(spec, f->name)
                               : class_of(f->name) != best || f->link_local))
            continue;
        n++;
        if (names)
            strlist_add(names, f->name);
        if (!*why && f->link_local)
            *why = xasprintf("%s has only a link-local address", f->name);
        else if (!*why && set && strcmp(f->name, "lo") == 0)
            *why = xasprintf("%s lets lo pass, which no other machine can reach", spec);
    }
    if (n > 0)
        return 0;
    free(*why);
    *why = what_exists(l, spec);
    return -1;
}
