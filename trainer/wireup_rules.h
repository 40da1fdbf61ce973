/* wireup_rules.h - what must hold before ranks may trust each other.
 *
 * They read the environment and their arguments, never the network, so each is
 * tested without a cluster. */
#ifndef TRAINER_WIREUP_RULES_H
#define TRAINER_WIREUP_RULES_H

#include <stddef.h>

struct err;

/* What a rank says about itself. */
struct wireup_seat {
    char host[64];
    char boot_id[40];
    int pid, local_rank, local_world, node_rank; /* -1 unknown */
    char visible[64]; /* CUDA_VISIBLE_DEVICES; "-" when unset */
};

/* No launcher answers and this process would run as rank 0 of 1: an error when
 * Slurm, mpirun or another launcher says that there are more (case C01). */
int wireup_refuse_singleton(struct err *err);

/* Rank and size against what Slurm (only when nspace is one of its own:
 * "slurm.pmix.*"), Open MPI and RANK/WORLD_SIZE say.  nspace may be "". */
int wireup_compare(int rank, int world, const char *nspace, struct err *err);

/* The master's name: MASTER_ADDR as it is, else the first line of SLURM_HOSTFILE
 * under an arbitrary distribution, else the first node of the allocation; never
 * SLURM_LAUNCH_NODE_IPADDR (cases C02, B13). */
int wireup_master(char *host, size_t size, struct err *err);

/* First name of a Slurm host list: "gn[07-08],x" gives gn07. */
int wireup_first_host(const char *hostlist, char *host, size_t size, struct err *err);

/* `name` resolves to `address`: a loopback address is refused when `machines`
 * is more than one; addresses that hosts_path knows for the same machine are
 * offered (case C03). */
int wireup_check_master(const char *name, const char *address, int machines,
                        const char *hosts_path, struct err *err);

/* One host name on two machines (case C19). */
int wireup_check_machines(const struct wireup_seat *seat, int n, struct err *err);
/* Distinct (boot id, host name) pairs. */
int wireup_count_machines(const struct wireup_seat *seat, int n);

/* The device index of a rank: `visible` (CUDA_VISIBLE_DEVICES, NULL when unset)
 * holds one device a task or all of the node's (case C16).  count: devices the
 * driver shows when visible is NULL. */
int wireup_pick_device(const char *visible, int count, int local_rank, int *device,
                       struct err *err);

/* busid[r] "": none.  Two ranks of a machine on one device (case C16). */
int wireup_check_devices(const struct wireup_seat *seat, const char *const *busid,
                         int n, struct err *err);

#endif
