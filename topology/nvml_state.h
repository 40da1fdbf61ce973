/* nvml_state.h - how the GPUs of this machine are, as the driver counts and measures it
 * at one moment.  What a GPU is (name, links, memory) is the topology's. */
#ifndef TOPOLOGY_NVML_STATE_H
#define TOPOLOGY_NVML_STATE_H

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct nvml;
struct nvml_event_set;

/* Numbers of one GPU.  Modes and flags are 0 or 1. */
enum gpu_fact {
    GPU_SM,                  /* compute capability, 90 for 9.0 */
    GPU_CORES,               /* CUDA cores */
    GPU_ECC,                 /* mode now */
    GPU_ECC_PENDING,         /* mode after the next reset */
    GPU_ECC_UNCORRECTED,     /* errors since the driver was loaded */
    GPU_REMAP_CORRECTABLE,   /* rows remapped for correctable errors */
    GPU_REMAP_UNCORRECTABLE, /* rows remapped for uncorrectable errors */
    GPU_REMAP_PENDING,       /* a remap waits for a reset */
    GPU_REMAP_FAILED,        /* a remap failed: no spare row */
    GPU_PAGES_PENDING,       /* a page retirement waits (before row remapping) */
    GPU_THROTTLE,            /* clocks event reasons, NVML's bits */
    GPU_BUSY,                /* utilisation, percent */
    GPU_PCIE_GEN,            /* now; an idle GPU lowers it */
    GPU_PCIE_GEN_MAX,        /* what card and slot can do together */
    GPU_PCIE_GEN_CARD,       /* what the card can do */
    GPU_PCIE_WIDTH,          /* lanes now */
    GPU_PCIE_WIDTH_MAX,      /* lanes that card and slot can do together */
    GPU_PCIE_REPLAYS,        /* since the driver was loaded */
    GPU_LINKS,               /* NVLinks that are up */
    GPU_LINKS_DOWN,          /* and down */
    GPU_LINK_CRC,            /* flit CRC errors of all links, counted since a reset */
    GPU_LINK_REPLAYS,
    GPU_LINK_RECOVERIES,
    GPU_POWER_LIMIT,   /* W */
    GPU_POWER_DEFAULT, /* W */
    GPU_POWER,         /* W, now */
    GPU_TEMPERATURE,   /* degrees C */
    GPU_SLOWDOWN_AT,   /* degrees C at which the hardware slows down */
    GPU_MEMORY_USED,   /* bytes, without what the driver keeps for itself */
    GPU_PROCESSES,     /* compute processes */
    GPU_MIG,
    GPU_MIG_PENDING,
    GPU_MIG_INSTANCES,
    GPU_FABRIC, /* 1: .fabric says how it is */
    GPU_PERSISTENCE,
    GPU_CLOCK,            /* MHz of the SMs, now */
    GPU_CLOCK_MAX,        /* MHz */
    GPU_MEMORY_CLOCK_MAX, /* MHz */
    GPU_BUS_WIDTH,        /* bits of the memory bus */
    N_GPU_FACTS
};

struct gpu_state {
    int index; /* NVML's */
    char busid[20], name[64];
    char lost[128];           /* why the driver answers nothing about it; "" it does */
    char fabric[16];          /* as struct gpu's; "" unknown */
    char processes[160];      /* "PID NAME (1.2 GiB), ..." */
    double fact[N_GPU_FACTS]; /* NaN: not known */
};

/* Every fact NaN, every text "". */
void gpu_state_init(struct gpu_state *s);

/* All GPUs that the driver counts: (*out)[n], the caller's to free().  What a driver or
 * a card does not support stays unknown; ERR_SYSTEM when the list itself fails. */
int nvml_states(const struct nvml *n, struct gpu_state **out, int *count,
                struct err *err);

/* Xid events of all GPUs from now on; NULL: the driver does not report them. */
struct nvml_event_set *nvml_watch_xids(const struct nvml *n);
/* Takes one that came, without waiting; 0: none (left).  busid: of the GPU. */
int nvml_next_xid(const struct nvml *n, struct nvml_event_set *set, char busid[20]);
void nvml_watch_end(const struct nvml *n,
                    struct nvml_event_set *set); /* NULL is fine */

/* "580.65.06" and "13.0"; "" unknown. */
void nvml_versions(const struct nvml *n, char driver[32], char cuda[16]);

#ifdef __cplusplus
}
#endif
#endif
