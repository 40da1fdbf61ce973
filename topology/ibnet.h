/* ibnet.h - what ibnetdiscover prints: devices and the cables between their ports.
 *
 * Records are as rdma-core writes them (also with -f, -g and -l's names); the one-line
 * form of -p is refused.  A cable that both ends list is one cable. */
#ifndef TOPOLOGY_IBNET_H
#define TOPOLOGY_IBNET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;

enum { IBNET_MAX_BYTES = 256 << 20, IBNET_DEVICES_MAX = 1 << 18 };

enum ib_kind { IB_SWITCH, IB_ADAPTER, IB_ROUTER };

struct ib_device {
    uint64_t guid; /* of the node */
    enum ib_kind kind;
    char name[65]; /* its description; never an identity */
};

struct ib_end {
    int device, port;
};

struct ib_cable {
    struct ib_end a, b;
    double gbits_per_s; /* width x lane rate; -1 unknown */
};

struct ibnet {
    int n_devices, n_cables;
    struct ib_device *device; /* by ascending GUID */
    struct ib_cable *cable;
};

/* ERR_USAGE; *out is set only on success. */
int ibnet_parse(const char *text, size_t len, const char *where, struct ibnet *out,
                struct err *err);
void ibnet_release(struct ibnet *n);

#ifdef __cplusplus
}
#endif
#endif
