/* ibnet_live.h - the door to libibnetdisc (rdma-core): the fabric that this machine hangs
 * on, asked now.
 *
 * The libraries are loaded at run time, their header is needed to build; ibnet_absent.c
 * stands here in a build without it. */
#ifndef TOPOLOGY_IBNET_LIVE_H
#define TOPOLOGY_IBNET_LIVE_H

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct str;

/* Walk the fabric and append what ibnetdiscover would print of it.  It may take minutes,
 * and the library writes its complaints to stderr.  ERR_MISSING: built without it, no
 * library; ERR_FAILED: the fabric cannot be walked (no rights on /dev/infiniband/umad*, no
 * port that is up). */
int ibnet_live_read(struct str *out, struct err *err);

/* The same of a fabric that is at hand, an ibnd_fabric_t; for tests. */
int ibnet_live_text(void *fabric, struct str *out, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
