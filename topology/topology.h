/* topology.h - the machines, as plain data.
 *
 * Sources (sysfs, NVML, a cluster specification, saved JSON, ...) fill it and
 * are forgotten, so every later stage can be tested without hardware.
 * Unknown is -1 for numbers and "" for text, never a guess. */
#ifndef TOPOLOGY_TOPOLOGY_H
#define TOPOLOGY_TOPOLOGY_H

#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct js;

enum nic_kind { NIC_UNKNOWN, NIC_COMPUTE, NIC_STORAGE, NIC_MANAGEMENT };
enum link_layer { LINK_UNKNOWN, LINK_INFINIBAND, LINK_ETHERNET };

struct nvlink {
    /* bus id of the other end, or "gpu:INDEX" where bus ids are not known; "switch"
     * when it is hidden behind one; "" unknown */
    char peer[20];
    char peer_class
        [12];  /* PCI class of the other end, "0x068000" (a switch); "" unknown */
    int count; /* bonded links to that peer */
    double gbytes_per_s; /* one direction, all `count` links; -1 unknown */
};

struct gpu {
    int index;      /* as the driver numbers it on this host */
    char busid[20]; /* "0000:18:00.0", lower case */
    char name[64];  /* "NVIDIA H200" */
    char uuid[48];
    int sm;                   /* compute capability, 90; -1 unknown */
    int numa;                 /* -1 unknown */
    int64_t memory_bytes;     /* -1 unknown */
    double pcie_gbytes_per_s; /* one direction; -1 unknown */
    int mig;           /* 1: MIG on (not usable whole); 0 off; -1 not capable/unknown */
    int gdr;           /* NCCL found that NICs reach its memory: 1, 0; -1 unknown */
    int mig_instances; /* of a GPU with MIG on; -1 unknown */
    int nic;           /* nearest compute NIC, index into node.nics; -1 none/unknown */
    char nic_path[8];  /* to it, in nvidia-smi's words: PIX PXB PHB NODE SYS */
    char fabric[16]; /* what the fabric manager made of it: "completed", "in progress",
                            "not started", "none" (needs none), "degraded" */
    char links_down[64]; /* NVLinks that it has and that are not up, "3,5" */
    int n_nvlinks;
    struct nvlink *nvlinks;
};

enum { GID_NONE = -2 };

struct nic {
    char name[32]; /* mlx5_0, eth0 */
    char busid[20];
    char guid[20];       /* node GUID "0xe41d2d0300...", "" when it has none */
    char image_guid[20]; /* of the card (sys_image_guid), as NCCL tells cards apart */
    int port;            /* of an RDMA device, from 1; -1 unknown */
    char address[48];    /* IP of an Ethernet interface; "" unknown */
    enum nic_kind kind;
    enum link_layer layer;
    int up;         /* 1, 0; -1 unknown */
    char state[12]; /* of an RDMA port: "active", "down", "init", "armed"; "" unknown */
    int numa;
    int rail;           /* -1 unknown */
    int plane;          /* of several fabrics that no link joins; -1 one, or unknown */
    int gid;            /* index of the RoCE v2 GID that routes; GID_NONE; -1 unknown */
    char why[64];       /* why it is not one of the compute set; "" it may be */
    double gbits_per_s; /* port rate; -1 unknown */
    int leaf;           /* index into fabric.switches; -1 unknown */
};

/* A PCIe switch (its upstream port), or a GPU or NIC of the node, as NCCL draws the
 * tree: root ports and the downstream ports of switches are left out. */
struct pci {
    char busid[20];
    int above; /* the switch it hangs below: an index into node.pcis, smaller than its
                  own; -1 the host bridge */
    int numa;  /* -1 unknown */
    char class[12];            /* "0x060400" a switch, "0x03...." GPU, "0x02...." NIC */
    char vendor[8], device[8]; /* "0x10de"; "" unknown, here and below */
    char subsystem_vendor[8], subsystem_device[8];
    char link_speed
        [24];       /* the fastest that it and the port above can, "32.0 GT/s PCIe" */
    int link_width; /* lanes in use; -1 unknown */
};

struct numa {
    int id;
    char cpus[256]; /* kernel list, "0-15,32-47" */
    int64_t memory_bytes;
};

enum set_aside { IN_USE, AS_SPARE, AS_BAD };

struct node {
    char name[64];
    char boot_id[40];            /* identity of the machine; "" unknown */
    char arch[12];               /* x86_64, arm64, ppc64 */
    char cpu_vendor[16];         /* "GenuineIntel" */
    int cpu_family, cpu_version; /* as CPUID has them (model of a family); -1 unknown */
    char cpu_model[64];
    int sockets, cores, threads; /* -1 unknown */
    int64_t memory_bytes;
    int leaf;      /* where Slurm's topology puts it: fabric.switches; -1 */
    int slots;     /* ranks that whoever gave the node wants there; -1 not said */
    int set_aside; /* enum set_aside: placements leave it out; never saved */
    char nvlink_domain[64]; /* "ClusterUUID.CliqueId"; "" unknown */
    char driver[32];        /* version of the GPUs' driver; "" unknown */
    int nvswitches;         /* that its PCI bus shows; -1 unknown */
    int n_numas, n_pcis, n_gpus, n_nics;
    struct numa *numas;
    struct pci *pcis; /* empty where nobody looked */
    struct gpu *gpus;
    struct nic *nics;
};

struct fabric_switch {
    char name[64];
    char guid[20];
    int level;      /* 0 leaf, 1 spine, ... */
    char kind[12];  /* "" a switch; Slurm's "block" or "ring" of nodes */
    int link_speed; /* Slurm's LinkSpeed, in no known unit; 0 none */
};

struct fabric_link {
    int from, to;       /* switches[], from below to */
    int count;          /* parallel cables */
    double gbits_per_s; /* one cable */
};

enum severity { SEVERITY_NOTE, SEVERITY_WARN, SEVERITY_FAIL };

struct finding {
    enum severity severity;
    char object[96];
    char *text; /* owned */
};

struct topology {
    char source[64]; /* "sysfs+nvml", "spec:b200-64x8.yaml", ... */
    int simulated;   /* 1: describes machines that were not looked at */
    int unseen;      /* 1: nodes were not looked at from inside, as Slurm's: CPUs of
                        ranks are chosen there */
    int by_guid;     /* 1: nodes are named by what ports call themselves, which proves
                        nothing: merging goes by the GUIDs of NICs and adds no node */
    int n_nodes;
    struct node *nodes;
    int n_switches, n_links;
    struct fabric_switch *switches;
    struct fabric_link *links;
    int n_block_sizes; /* of Slurm's blocks, ascending; [0] the base */
    int block_sizes[16];
    int n_findings;
    struct finding *findings;
};

/* This host, from sysfs below `root` ("" or "/": the live one; a recorded tree
 * for tests) and, when root is live, NVML where the driver is installed. */
int topology_from_host(const char *root, struct topology **out, struct err *err);

/* GPUs of this machine through NVML (dlopen): adds them to node 0 of `t`,
 * joined to sysfs by bus id.  ERR_MISSING when there is no driver. */
int topology_add_nvml(struct topology *t, struct err *err);

/* A cluster specification (recipes/clusters/NAME.yaml). */
int topology_from_spec(const char *path, struct topology **out, struct err *err);

/* What topology_json() wrote. */
int topology_from_json(const char *path, struct topology **out, struct err *err);

/* One source by its command-line form "KIND[:FILE]" (sysfs, nvml, spec, json, ncclxml,
 * smi, slurmconf, cliques, ibnet). */
int topology_from_source(const char *text, struct topology **out, struct err *err);

/* The machines of a `--cluster` option or a recipe's cluster.file: a specification,
 * or KIND:FILE as above; NULL or "": this host. */
int topology_from_cluster(const char *text, struct topology **out, struct err *err);

/* The name of a node whose source does not know it. */
#define TOPOLOGY_UNNAMED "unnamed"

/* Add to t what only `more` knows: nodes are one when boot id (else name) is, or when
 * each has one node and either is unnamed; GPUs by bus id, UUID or index, NICs by
 * GUID, bus id or name.  t wins where both know. */
int topology_merge(struct topology *t, const struct topology *more, struct err *err);

/* Leave only the node of this name in t, with the fabric and the findings about the
 * node.  ERR_USAGE, with a suggestion, when there is none. */
int topology_keep_node(struct topology *t, const char *name, struct err *err);

/* Check what must hold of any topology, whoever built it. */
int topology_validate(const struct topology *t, struct err *err);

void topology_print(const struct topology *t, FILE *fp); /* a text tree */
struct js *topology_json(const struct topology *t);      /* the caller's js_free() */
void topology_free(struct topology *t);                  /* NULL is fine */

const char *nic_kind_name(enum nic_kind k);     /* "compute", ... */
const char *link_layer_name(enum link_layer l); /* "infiniband", ... */
const char *severity_name(enum severity s);     /* "note", "warn", "fail" */

/* For sources.  What is added starts as unknown (-1, ""); the pointer lasts until
 * the next addition of its kind. */
struct topology *topology_new(const char *source, int n_nodes);
struct node *topology_add_node(struct topology *t);
struct gpu *topology_add_gpu(struct node *n);
struct nic *topology_add_nic(struct node *n);
struct numa *topology_add_numa(struct node *n);
struct pci *topology_add_pci(struct node *n);
struct nvlink *topology_add_nvlink(struct gpu *g);
struct fabric_switch *topology_add_switch(struct topology *t);
struct fabric_link *topology_add_link(struct topology *t);
void topology_find(struct topology *t, enum severity s, const char *object,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* As topology_find(), but once: a finding that t has (a saved topology brings its own)
 * is not added again. */
void topology_find_once(struct topology *t, enum severity s, const char *object,
                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Findings of each node by itself: NVLinks that are missing beside like GPUs or against
 * the model, a fabric manager that is not ready, MIG, compute ports that are down, NICs
 * far from their GPU; and, for sources that could have known it, devices whose NUMA
 * node is unknown.  May be called again when more is known. */
void topology_inspect(struct topology *t);
void topology_inspect_affinity(struct topology *t);

/* Index in n->pcis of a bus id; -1 not there. */
int node_pci(const struct node *n, const char *busid);
/* The GPU of n at the other end of l; NULL: a switch, or unknown. */
const struct gpu *gpu_peer(const struct node *n, const struct nvlink *l);
/* NVLinks of g that are up, whoever is at the other end. */
int gpu_nvlink_count(const struct gpu *g);
/* One direction, all of them together; 0 without NVLink, -1 unknown. */
double gpu_nvlink_gbytes_per_s(const struct gpu *g);
/* PCIe of one direction: speed text of sysfs ("16.0 GT/s PCIe") and lanes.
 * NCCL's rates (graph/topo.h): 100 Mb/s a lane 2.5 -> 15, 5 -> 30, 8 -> 60,
 * 16 -> 120, 32 -> 240, 64 -> 480; -1 when either is unknown. */
double pcie_gbytes_per_s(const char *speed, int width);
/* "00000000:18:00.0" and "18:00.0" as sysfs writes it, "0000:18:00.0". */
void busid_normalise(const char *text, char out[20]);
int busid_valid(const char *text);

#ifdef __cplusplus
}
#endif
#endif
