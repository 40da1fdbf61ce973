/* ifname.h - network interfaces and the grammar of NCCL_SOCKET_IFNAME.
 *
 * Source: NCCL's environment documentation.  "eth,ib" prefixes; "=eth0,eth1" exact
 * names; "^docker,lo" all but these prefixes; "^=bond0" all but exactly this.
 * Unset: names that begin with "ib" first, then any but docker* and lo, then
 * docker*, then lo.  Only interfaces that are up and have an address count (case
 * C04). */
#ifndef CHECKS_IFNAME_H
#define CHECKS_IFNAME_H

struct err;
struct strlist;

struct ifname {
    char name[32];
    int up;
    int addresses;  /* 0: it has none */
    int link_local; /* 1: link-local addresses only */
};

struct ifname_list {
    struct ifname *item;
    int n;
};

/* Of this machine. */
void ifname_live(struct ifname_list *out);
/* What `ip -br addr` prints. */
void ifname_parse(const char *text, struct ifname_list *out);
void ifname_release(struct ifname_list *l);

/* Does one specification admit a name?  Not for an unset one. */
int ifname_matches(const char *spec, const char *name);

/* The interfaces that pass, in order (names, may be NULL).  0; -1 when none does:
 * *why lists what exists.  *why may hold a warning on 0, too; the caller's to free(). */
int ifname_choose(const struct ifname_list *l, const char *spec, struct strlist *names,
                  char **why);

#endif
