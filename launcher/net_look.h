/* net_look.h - which interface of this machine programs of several machines shall use,
 * and which of NCCL, gloo and Open MPI would not find it by themselves (case C04).
 *
 * The interface is the one with the address by which the other machines reach this one;
 * where that is not known, the first that NCCL would take.  Never lo, never docker. */
#ifndef LAUNCHER_NET_LOOK_H
#define LAUNCHER_NET_LOOK_H

struct env;
struct err;
struct js;
struct strlist;

struct net_if {
    char name[32];
    int up;
    int prefix;       /* bits of the network; -1 unknown */
    char address[48]; /* one line an address; "" none */
};

struct net_ifs {
    struct net_if *item;
    int n;
};

void net_ifs_live(struct net_ifs *out);
void net_ifs_parse(const char *text, struct net_ifs *out); /* `ip -br addr` */
void net_ifs_release(struct net_ifs *l);

/* What may have to be told. */
enum net_var { NET_NCCL, NET_GLOO, NET_MPI, NET_VARS };

struct net_look {
    char interface[32]; /* "" none fits */
    char address[48];
    char network[64];        /* "10.99.0.0/24" */
    char why[NET_VARS][160]; /* it must be told; "": it finds the interface by itself */
};

const char *net_name(enum net_var v); /* NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME,
                                         OMPI_MCA_btl_tcp_if_include */
/* The value that it is told; the caller's to free(). */
char *net_value(const struct net_look *l, enum net_var v);

/* address: the one by which others reach us, NULL unknown.  own: where the machine's
 * own name leads to here, NULL nowhere. */
void net_look(const struct net_ifs *l, const char *address, const char *own,
              struct net_look *out);
/* The same of this machine; names: also where its own name leads to, which may take
 * seconds where a name server does not answer (else gloo is not judged). */
void net_look_here(const char *address, int names, struct net_look *out);

/* NAME=VALUE for what must be told. */
void net_settings(const struct net_look *l, struct strlist *out);
/* What of it the user has not said himself goes into the environment. */
void net_apply(const struct net_look *l, struct env *env);
/* A NCCL_SOCKET_IFNAME of the user that fits no interface: ERR_USAGE, with those that
 * are there. */
int net_check(const struct net_ifs *l, const char *nccl, struct err *err);

/* Our address on the way to a host (a name or an address; nothing is sent); 0, or -1
 * when it does not resolve or there is no way. */
int net_address_towards(const char *host, char out[48]);
int net_is_loopback(const char *address); /* 127.0.0.0/8, ::1 */
/* Where a name leads to here; 0, or -1: nowhere. */
int net_resolve(const char *name, char out[48]);

#endif
