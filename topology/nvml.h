/* nvml.h - NVML as a table of functions, loaded at run time.
 *
 * No NVIDIA header or library is needed to build.  Types and constants are
 * declared as NVIDIA's nvml.h (API version 13) documents them; names keep NVML's
 * words under our prefix.  One list names every function that muster calls. */
#ifndef TOPOLOGY_NVML_H
#define TOPOLOGY_NVML_H

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct nvml_device; /* opaque, NVML's nvmlDevice_t points to one */

/* nvmlReturn_t, those that are told apart. */
enum {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_LIBRARY_NOT_FOUND = 12,
};

enum {
    NVML_NAME_BYTES = 96,          /* NVML_DEVICE_NAME_V2_BUFFER_SIZE */
    NVML_UUID_BYTES = 96,          /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
    NVML_VERSION_BYTES = 80,       /* NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE */
    NVML_MAX_LINKS = 36,           /* NVML_NVLINK_MAX_LINKS */
    NVML_REMOTE_SWITCH = 2,        /* NVML_NVLINK_DEVICE_TYPE_SWITCH */
    NVML_FIELD_SPEED_COMMON = 90,  /* NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON */
    NVML_FIELD_GET_SPEED = 164,    /* NVML_FI_DEV_NVLINK_GET_SPEED, scope: link */
    NVML_FABRIC_NOT_SUPPORTED = 0, /* NVML_GPU_FABRIC_STATE_... */
    NVML_FABRIC_NOT_STARTED = 1,
    NVML_FABRIC_IN_PROGRESS = 2,
    NVML_FABRIC_COMPLETED = 3,
    NVML_FABRIC_DEGRADED = 1, /* of the health mask: reduced bandwidth */
    NVML_FABRIC_HEALTH_BITS = 3,
    NVML_LINK_CRC_FLIT = 2, /* NVML_NVLINK_ERROR_DL_... */
    NVML_LINK_REPLAY = 0,
    NVML_LINK_RECOVERY = 1,
    NVML_ECC_UNCORRECTED = 1, /* NVML_MEMORY_ERROR_TYPE_UNCORRECTED */
    NVML_ECC_VOLATILE = 0,    /* since the driver was loaded */
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEMORY = 2,
    NVML_TEMPERATURE_GPU = 0,
    NVML_TEMPERATURE_SLOWDOWN = 1, /* NVML_TEMPERATURE_THRESHOLD_SLOWDOWN */
    NVML_EVENT_XID = 8,            /* nvmlEventTypeXidCriticalError */
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_VALUE_DOUBLE = 0,
    NVML_VALUE_UINT = 1,
    NVML_VALUE_ULONG = 2,
    NVML_VALUE_ULLONG = 3,
};

/* nvmlPciInfo_t */
struct nvml_pci {
    char bus_id_legacy[16];
    unsigned int domain, bus, device;
    unsigned int pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

/* nvmlMemory_t */
struct nvml_memory {
    unsigned long long total, free, used;
};

/* nvmlMemory_v2_t; version: its size, and 2 << 24 */
struct nvml_memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};

/* nvmlUtilization_t, percent of the last sample period */
struct nvml_utilization {
    unsigned int gpu, memory;
};

/* nvmlProcessInfo_t as of nvmlDeviceGetComputeRunningProcesses_v3 */
struct nvml_process {
    unsigned int pid;
    unsigned long long used; /* bytes; all ones: not known */
    unsigned int gpu_instance, compute_instance;
};

struct nvml_event_set; /* opaque, nvmlEventSet_t points to one */

/* nvmlEventData_t */
struct nvml_event {
    struct nvml_device *device;
    unsigned long long type, data; /* data: the Xid */
    unsigned int gpu_instance, compute_instance;
};

/* nvmlValue_t */
union nvml_value {
    double d;
    unsigned int u;
    unsigned long ul;
    unsigned long long ull;
};

/* nvmlFieldValue_t */
struct nvml_field {
    unsigned int field_id, scope_id;
    long long timestamp, latency_us;
    int value_type, status;
    union nvml_value value;
};

/* nvmlGpuFabricInfo_t */
struct nvml_fabric {
    unsigned char cluster_uuid[16];
    int status;
    unsigned int clique_id;
    unsigned char state;
};

/* nvmlGpuFabricInfo_v2_t; version: its size, and 2 << 24 */
struct nvml_fabric_v2 {
    unsigned int version;
    unsigned char cluster_uuid[16];
    int status;
    unsigned int clique_id;
    unsigned char state;
    unsigned int health_mask;
};

/* One number about a device: the functions of nvml_state.c's table. */
#define NVML_NUMBERS(X)                                            \
    X(pcie_generation_now, nvmlDeviceGetCurrPcieLinkGeneration)    \
    X(pcie_generation_card, nvmlDeviceGetGpuMaxPcieLinkGeneration) \
    X(pcie_width_max, nvmlDeviceGetMaxPcieLinkWidth)               \
    X(pcie_replays, nvmlDeviceGetPcieReplayCounter)                \
    X(power_limit, nvmlDeviceGetPowerManagementLimit)              \
    X(power_default, nvmlDeviceGetPowerManagementDefaultLimit)     \
    X(power, nvmlDeviceGetPowerUsage)                              \
    X(persistence, nvmlDeviceGetPersistenceMode)                   \
    X(bus_width, nvmlDeviceGetMemoryBusWidth)                      \
    X(cores, nvmlDeviceGetNumGpuCores)                             \
    X(pages_pending, nvmlDeviceGetRetiredPagesPendingStatus)

/* X(need, member, symbol, arguments): need 1: without it the library is refused. */
#define NVML_FUNCTIONS(X)                                                             \
    X(1, init, nvmlInit_v2, (void))                                                   \
    X(1, shutdown, nvmlShutdown, (void))                                              \
    X(1, count, nvmlDeviceGetCount_v2, (unsigned *))                                  \
    X(1, handle, nvmlDeviceGetHandleByIndex_v2, (unsigned, struct nvml_device **))    \
    X(1, name, nvmlDeviceGetName, (struct nvml_device *, char *, unsigned))           \
    X(1, uuid, nvmlDeviceGetUUID, (struct nvml_device *, char *, unsigned))           \
    X(1, pci, nvmlDeviceGetPciInfo_v3, (struct nvml_device *, struct nvml_pci *))     \
    X(1, memory, nvmlDeviceGetMemoryInfo,                                             \
      (struct nvml_device *, struct nvml_memory *))                                   \
    X(0, driver_version, nvmlSystemGetDriverVersion, (char *, unsigned))              \
    X(0, capability, nvmlDeviceGetCudaComputeCapability,                              \
      (struct nvml_device *, int *, int *))                                           \
    X(0, mig_mode, nvmlDeviceGetMigMode,                                              \
      (struct nvml_device *, unsigned *, unsigned *))                                 \
    X(0, mig_max, nvmlDeviceGetMaxMigDeviceCount, (struct nvml_device *, unsigned *)) \
    X(0, mig_device, nvmlDeviceGetMigDeviceHandleByIndex,                             \
      (struct nvml_device *, unsigned, struct nvml_device **))                        \
    X(0, fabric, nvmlDeviceGetGpuFabricInfo,                                          \
      (struct nvml_device *, struct nvml_fabric *))                                   \
    X(0, fabric_v2, nvmlDeviceGetGpuFabricInfoV,                                      \
      (struct nvml_device *, struct nvml_fabric_v2 *))                                \
    X(0, pcie_generation, nvmlDeviceGetMaxPcieLinkGeneration,                         \
      (struct nvml_device *, unsigned *))                                             \
    X(0, pcie_width, nvmlDeviceGetCurrPcieLinkWidth,                                  \
      (struct nvml_device *, unsigned *))                                             \
    X(0, link_state, nvmlDeviceGetNvLinkState,                                        \
      (struct nvml_device *, unsigned, int *))                                        \
    X(0, link_remote, nvmlDeviceGetNvLinkRemotePciInfo_v2,                            \
      (struct nvml_device *, unsigned, struct nvml_pci *))                            \
    X(0, link_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType,                       \
      (struct nvml_device *, unsigned, int *))                                        \
    X(0, fields, nvmlDeviceGetFieldValues,                                            \
      (struct nvml_device *, int, struct nvml_field *))                               \
    X(0, link_errors, nvmlDeviceGetNvLinkErrorCounter,                                \
      (struct nvml_device *, unsigned, int, unsigned long long *))                    \
    X(0, ecc_mode, nvmlDeviceGetEccMode,                                              \
      (struct nvml_device *, unsigned *, unsigned *))                                 \
    X(0, ecc_errors, nvmlDeviceGetTotalEccErrors,                                     \
      (struct nvml_device *, int, int, unsigned long long *))                         \
    X(0, remapped_rows, nvmlDeviceGetRemappedRows,                                    \
      (struct nvml_device *, unsigned *, unsigned *, unsigned *, unsigned *))         \
    X(0, throttle, nvmlDeviceGetCurrentClocksThrottleReasons,                         \
      (struct nvml_device *, unsigned long long *))                                   \
    X(0, utilization, nvmlDeviceGetUtilizationRates,                                  \
      (struct nvml_device *, struct nvml_utilization *))                              \
    X(0, clock, nvmlDeviceGetClockInfo, (struct nvml_device *, int, unsigned *))      \
    X(0, clock_max, nvmlDeviceGetMaxClockInfo,                                        \
      (struct nvml_device *, int, unsigned *))                                        \
    X(0, temperature, nvmlDeviceGetTemperature,                                       \
      (struct nvml_device *, int, unsigned *))                                        \
    X(0, temperature_limit, nvmlDeviceGetTemperatureThreshold,                        \
      (struct nvml_device *, int, unsigned *))                                        \
    X(0, memory_v2, nvmlDeviceGetMemoryInfo_v2,                                       \
      (struct nvml_device *, struct nvml_memory_v2 *))                                \
    X(0, processes, nvmlDeviceGetComputeRunningProcesses_v3,                          \
      (struct nvml_device *, unsigned *, struct nvml_process *))                      \
    X(0, cuda_version, nvmlSystemGetCudaDriverVersion_v2, (int *))                    \
    X(0, events_new, nvmlEventSetCreate, (struct nvml_event_set **))                  \
    X(0, events_free, nvmlEventSetFree, (struct nvml_event_set *))                    \
    X(0, events_add, nvmlDeviceRegisterEvents,                                        \
      (struct nvml_device *, unsigned long long, struct nvml_event_set *))            \
    X(0, events_wait, nvmlEventSetWait_v2,                                            \
      (struct nvml_event_set *, struct nvml_event *, unsigned))

struct nvml {
    void *library;
    const char *(*error_text)(int status); /* nvmlErrorString */
#define X(need, member, symbol, arguments) int(*member) arguments;
    NVML_FUNCTIONS(X)
#undef X
#define X(member, symbol) int (*member)(struct nvml_device *, unsigned *);
    NVML_NUMBERS(X)
#undef X
};

/* Load and initialise.  ERR_MISSING: no driver library, or no driver loaded;
 * ERR_SYSTEM: there is one and it fails.  nvml_close() after success. */
int nvml_open(struct nvml *n, struct err *err);
void nvml_close(struct nvml *n);

#ifdef __cplusplus
}
#endif
#endif
