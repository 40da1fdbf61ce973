/* A stand-in for libnvidia-ml.so.1: a virtual machine with two H200, as recorded
 * (18 NVLinks of 26562 MB/s each to a switch that is not visible, PCIe width unknown).
 * Types are written down from NVIDIA's nvml.h a second time, so that a slip in ours
 * shows.  The variable FAKE_NVML picks another story:
 *   unloaded   nvmlInit: driver not loaded        mismatch  nvmlInit: version mismatch
 *   mig        MIG is on on GPU 0                 links     GPU 1: links 3 and 5 down
 *   pair       bonded to each other, no switch    one       only GPU 0 is shown
 *   old        no per-link speed field            mute      nothing optional answers
 *   waits      GPU 0: fabric manager in progress  rack      one clique of a rack
 *   hurt       as rack, with reduced bandwidth    oldrack   as rack, only the old call
 *   slices     MIG is on on GPU 0, with two instances
 *   short      links 16 and 17 down on both       dark      all links down on both
 * FAKE_NVML_SET changes single numbers of this story: "INDEX.NAME=VALUE" separated by
 * blanks, such as "1.remap_pending=1 0.throttle=0x48"; the names stand in the calls of
 * fact() below.  VALUE "no": NVML_ERROR_NOT_SUPPORTED. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st {
    int index;
} * nvmlDevice_t;
typedef struct {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;
typedef union {
    double dVal;
    int siVal;
    unsigned int uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    signed long long sllVal;
    unsigned short usVal;
} nvmlValue_t;
typedef struct {
    unsigned int fieldId;
    unsigned int scopeId;
    long long timestamp;
    long long latencyUsec;
    int valueType;
    nvmlReturn_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;

enum {
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    LINKS = 18
};

static struct nvmlDevice_st devices[2] = { { 0 }, { 1 } };
static const char *const bus[2] = { "00000000:00:06.0", "00000000:00:07.0" };

static int story(const char *name)
{
    const char *now = getenv("FAKE_NVML");

    return now && strcmp(now, name) == 0;
}

/* What FAKE_NVML_SET says of `name`, or what is usual; NOT_SUPPORTED where mute. */
static nvmlReturn_t fact(nvmlDevice_t d, const char *name, unsigned long long usual,
                         unsigned long long *out)
{
    const char *set = getenv("FAKE_NVML_SET");
    char key[64];

    snprintf(key, sizeof(key), "%d.%s=", d->index, name);
    *out = usual;
    for (const char *at = set ? strstr(set, key) : NULL; at; at = strstr(at + 1, key)) {
        if (at > set && at[-1] != ' ')
            continue;
        at += strlen(key);
        if (strncmp(at, "no", 2) == 0)
            return NOT_SUPPORTED;
        *out = strtoull(at, NULL, 0);
        return 0;
    }
    return story("mute") ? NOT_SUPPORTED : 0;
}

static nvmlReturn_t number(nvmlDevice_t d, const char *name, unsigned int usual,
                           unsigned int *out)
{
    unsigned long long v;
    nvmlReturn_t status = fact(d, name, usual, &v);

    *out = (unsigned int)v;
    return status;
}

#define NUMBER(symbol, name, usual)                         \
    nvmlReturn_t symbol(nvmlDevice_t d, unsigned int *out); \
    nvmlReturn_t symbol(nvmlDevice_t d, unsigned int *out)  \
    {                                                       \
        return number(d, name, usual, out);                 \
    }

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlInit_v2(void)
{
    return story("unloaded") ? 9 : story("mismatch") ? 18 : 0;
}

nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(nvmlReturn_t status);
const char *nvmlErrorString(nvmlReturn_t status)
{
    return status == 9    ? "Driver Not Loaded"
           : status == 15 ? "GPU is lost"
           : status == 18 ? "Driver/library version mismatch"
                          : "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length);
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    snprintf(version, length, "580.159.03");
    return 0;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n)
{
    *n = story("one") ? 1 : 2;
    return 0;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *d);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *d)
{
    unsigned long long lost;

    if (index > 1)
        return INVALID_ARGUMENT;
    *d = &devices[index];
    fact(*d, "lost", 0, &lost);
    return lost ? GPU_IS_LOST : 0;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *name, unsigned int length);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *name, unsigned int length)
{
    (void)d;
    snprintf(name, length, "NVIDIA H200");
    return 0;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *uuid, unsigned int length);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *uuid, unsigned int length)
{
    snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012d", d->index + 1);
    return 0;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof(*pci));
    snprintf(pci->busId, sizeof(pci->busId), "%s", bus[d->index]);
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%s", bus[d->index] + 4);
    pci->device = (unsigned)d->index + 6;
    pci->pciDeviceId = 0x233510de;
    return 0;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory)
{
    (void)d;
    memory->total = 143771ULL << 20;
    memory->used = 1ULL << 20;
    memory->free = memory->total - memory->used;
    return 0;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor)
{
    (void)d;
    *major = 9;
    *minor = 0;
    return story("mute") ? NOT_SUPPORTED : 0;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *now,
                                  unsigned int *pending);
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *now,
                                  unsigned int *pending)
{
    *now = *pending = (story("mig") || story("slices")) && d->index == 0;
    return story("mute") ? NOT_SUPPORTED : 0;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *n);
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *n)
{
    (void)d;
    *n = 7;
    return 0;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int i,
                                                 nvmlDevice_t *out);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int i,
                                                 nvmlDevice_t *out)
{
    *out = d;
    return story("slices") && (i == 0 || i == 3) ? 0 : 6; /* NVML_ERROR_NOT_FOUND */
}

/* State: 0 not supported, 2 in progress, 3 completed. */
static int fabric_state(nvmlDevice_t d)
{
    if (story("waits"))
        return d->index == 0 ? 2 : 3;
    return story("rack") || story("hurt") || story("oldrack") ? 3 : 0;
}

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *f);
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *f)
{
    memset(f, 0, sizeof(*f));
    f->state = (unsigned char)fabric_state(d);
    if (!story("waits"))
        memset(f->clusterUuid, 0x11, f->state == 3 ? sizeof(f->clusterUuid) : 0);
    f->cliqueId = 7;
    return story("mute") ? NOT_SUPPORTED : 0;
}

typedef struct {
    unsigned int version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned char state;
    unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfo_v2_t *f);
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfo_v2_t *f)
{
    nvmlGpuFabricInfo_t old;

    if (f->version != (sizeof(*f) | 2U << 24))
        return INVALID_ARGUMENT;
    if (story("oldrack") || nvmlDeviceGetGpuFabricInfo(d, &old) != 0)
        return NOT_SUPPORTED;
    memcpy(f->clusterUuid, old.clusterUuid, sizeof(old.clusterUuid));
    f->status = 0;
    f->cliqueId = old.cliqueId;
    f->state = old.state;
    f->healthMask = story("hurt") && d->index == 1 ? 1 : 2;
    return 0;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned int *gen);
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned int *gen)
{
    return number(d, "pcie_gen_max", 5, gen);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t d, unsigned int *width);
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t d, unsigned int *width)
{
    return number(d, "pcie_width", 0, width);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned int link, int *active);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned int link, int *active)
{
    if (link >= LINKS)
        return INVALID_ARGUMENT;
    *active = !(story("links") && d->index == 1 && (link == 3 || link == 5)) &&
              !(story("short") && link > 15) && !story("dark");
    return story("mute") ? NOT_SUPPORTED : 0;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned int link,
                                                 nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned int link,
                                                 nvmlPciInfo_t *pci)
{
    (void)link;
    memset(pci, 0, sizeof(*pci));
    snprintf(pci->busId, sizeof(pci->busId), "%s",
             story("pair") ? bus[1 - d->index] : "FFFFFFFF:FF:FF.0");
    return 0;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned int link,
                                                 int *type);
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned int link,
                                                 int *type)
{
    (void)d;
    (void)link;
    *type = story("pair") ? 0 : 2;
    return 0;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *f);
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *f)
{
    (void)d;
    for (int i = 0; i < n; i++) {
        int per_link = f[i].fieldId == 164 && f[i].scopeId < LINKS && !story("old");
        f[i].nvmlReturn = per_link || f[i].fieldId == 90 ? 0 : NOT_SUPPORTED;
        f[i].valueType = 1;
        f[i].value.ullVal = 0;
        f[i].value.uiVal = 26562;
    }
    return 0;
}

/* --- what changes: tests set it -------------------------------------------------- */

NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen", 5)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie_gen_card", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", 0)
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie_replays", 0)
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit", 700000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_default", 700000)
NUMBER(nvmlDeviceGetPowerUsage, "power", 650000)
NUMBER(nvmlDeviceGetPersistenceMode, "persistence", 1)
NUMBER(nvmlDeviceGetMemoryBusWidth, "bus_width", 6144)
NUMBER(nvmlDeviceGetNumGpuCores, "cores", 132 * 128)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "pages_pending", 0)

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, unsigned int *now,
                                  unsigned int *next);
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, unsigned int *now, unsigned int *next)
{
    nvmlReturn_t status = number(d, "ecc", 1, now);

    number(d, "ecc_pending", *now, next);
    return status;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, int type, int counter,
                                         unsigned long long *out);
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, int type, int counter,
                                         unsigned long long *out)
{
    /* uncorrected 1, volatile 0; other counts must not be taken for these */
    if (type != 1 || counter != 0) {
        *out = 77;
        return 0;
    }
    return fact(d, "ecc_uncorrected", 0, out);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned int *correctable,
                                       unsigned int *uncorrectable,
                                       unsigned int *pending, unsigned int *failed);
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned int *correctable,
                                       unsigned int *uncorrectable,
                                       unsigned int *pending, unsigned int *failed)
{
    number(d, "remap_correctable", 0, correctable);
    number(d, "remap_uncorrectable", 0, uncorrectable);
    number(d, "remap_pending", 0, pending);
    return number(d, "remap_failed", 0, failed);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d,
                                                       unsigned long long *out);
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d,
                                                       unsigned long long *out)
{
    return fact(d, "throttle", 0, out);
}

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u)
{
    u->memory = 0;
    return number(d, "busy", 99, &u->gpu);
}

/* Domains: 1 SM, 2 memory. */
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, int domain, unsigned int *out);
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, int domain, unsigned int *out)
{
    return number(d, domain == 1 ? "clock" : "memory_clock", domain == 1 ? 1755 : 3201,
                  out);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, int domain, unsigned int *out);
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, int domain, unsigned int *out)
{
    return number(d, domain == 1 ? "clock_max" : "memory_clock_max",
                  domain == 1 ? 1980 : 3201, out);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned int *out);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned int *out)
{
    return sensor ? INVALID_ARGUMENT : number(d, "temperature", 60, out);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, int type,
                                               unsigned int *out);
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, int type,
                                               unsigned int *out)
{
    /* 0 shutdown, 1 slowdown */
    return number(d, type == 1 ? "slowdown_at" : "shutdown_at", type == 1 ? 87 : 92,
                  out);
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t d, unsigned int link,
                                             int counter, unsigned long long *out);
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t d, unsigned int link,
                                             int counter, unsigned long long *out)
{
    static const char *const names[] = { "link_replays", "link_recoveries",
                                         "link_crc" };

    *out = 0;
    if (link >= LINKS || counter < 0 || counter > 2)
        return INVALID_ARGUMENT;
    return link == 7 ? fact(d, names[counter], 0, out) : story("mute") ? 3 : 0;
}

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m)
{
    if (m->version != (sizeof(*m) | 2U << 24))
        return INVALID_ARGUMENT;
    m->total = 143771ULL << 20;
    m->reserved = 600ULL << 20;
    m->free = 0;
    return fact(d, "used", 0, &m->used);
}

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

/* A process that is there: the parent of the one that asks. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n,
                                                     nvmlProcessInfo_t *all);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n,
                                                     nvmlProcessInfo_t *all)
{
    unsigned int count;
    nvmlReturn_t status = number(d, "processes", 0, &count);

    for (unsigned int i = 0; i < count && i < *n; i++)
        all[i] = (nvmlProcessInfo_t){ (unsigned int)getppid(), 3ULL << 30, ~0U, ~0U };
    *n = count;
    return status;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version);
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = 13000;
    return 0;
}

/* --- events: one Xid of each GPU that has one ---------------------------------------- */

typedef struct nvmlEventSet_st {
    int told[2];
} * nvmlEventSet_t;
typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set);
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    *set = calloc(1, sizeof(**set));
    return 0;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    free(set);
    return 0;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types,
                                      nvmlEventSet_t set);
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types,
                                      nvmlEventSet_t set)
{
    (void)d;
    (void)set;
    return types != 8 ? INVALID_ARGUMENT : story("mute") ? NOT_SUPPORTED : 0;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *e,
                                 unsigned int timeout_ms);
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *e,
                                 unsigned int timeout_ms)
{
    unsigned long long xid;

    (void)timeout_ms;
    for (int i = 0; i < 2; i++) {
        if (set->told[i] || fact(&devices[i], "xid", 0, &xid) || xid == 0)
            continue;
        set->told[i] = 1;
        *e = (nvmlEventData_t){ &devices[i], 8, xid, ~0U, ~0U };
        return 0;
    }
    return TIMEOUT;
}
