/* nic.h - checks of the RDMA devices that train (topology: NIC_COMPUTE), from what the
 * kernel shows of them.  An object is "HOST DEVICE". */
#ifndef CHECKS_NIC_H
#define CHECKS_NIC_H

struct host;
struct measure;
struct measures;
struct node;
struct topology;

/* The machine's node of a topology; NULL: its devices could not be listed. */
const struct node *nic_node(const struct topology *t);

/* One measure of `name` about device `nic` of `host`. */
struct measure *nic_add(struct measures *out, const char *name, const char *host,
                        const char *nic);

/* nic.c: nic_state, nic_rate, nic_pcie, nic_mtu, nic_gid, nic_gid_same and nic_firmware of
 * each device; where there is none, one nic_state that says so. */
void nic_measure(const struct host *h, struct measures *out);

/* nic_gdr.c: do NICs reach the memory of GPUs? (case D12) */
void nic_measure_gdr(const struct host *h, struct measures *out);

/* nic_counters.c: error counters of the devices at one moment.  Never NULL;
 * nic_counters_free(). */
struct nic_counters;
struct nic_counters *nic_counters_read(const char *root, const struct topology *t);
void nic_counters_free(struct nic_counters *c); /* NULL is fine */

/* What was counted in `seconds` between two readings of the same devices. */
void nic_counters_measure(const struct nic_counters *before,
                          const struct nic_counters *after, double seconds,
                          const char *host, struct measures *out);

#endif
