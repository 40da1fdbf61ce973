/* slurm_master.h - MASTER_ADDR and MASTER_PORT of a step: where programs that meet by
 * torch.distributed's env:// find rank 0.
 *
 * The agent of rank 0 says which port is free on its node and where its node's own name
 * leads to there; the launcher decides before any rank is started. */
#ifndef LAUNCHER_SLURM_MASTER_H
#define LAUNCHER_SLURM_MASTER_H

struct env;
struct js;
struct run_request;

struct slurm_master {
    char addr[64]; /* instead of the node's name; "": the name is right */
    int port;      /* 0: none was found */
    char why[200]; /* of addr */
};

/* The part of the agent's HELLO, on rank 0's node.  fd: its connection to the launcher,
 * whose address here is one by which this node is reached.  The caller's js_free(). */
struct js *slurm_master_about(int fd);
/* The other end's decision.  The name stays (case C02) unless it leads nowhere there,
 * or, with several nodes, to loopback (case C03). */
void slurm_master_take(const struct run_request *q, const struct js *about,
                       struct slurm_master *out);
/* Into the environment of a rank, where the user has not set it himself. */
void slurm_master_set(const struct slurm_master *m, struct env *env);

/* Our address of a connection; "" when it is loopback or unknown. */
void slurm_master_own_address(int fd, char out[48]);

#endif
