/* nvml_links.h - NVLinks, the fabric manager's word on one GPU and its MIG devices.
 * Private to source_nvml.c and nvml_state.c. */
#ifndef TOPOLOGY_NVML_LINKS_H
#define TOPOLOGY_NVML_LINKS_H

#ifdef __cplusplus
extern "C" {
#endif

struct gpu;
struct node;
struct nvml;
struct nvml_device;

/* Links that are up, by their other end, and which are down. */
void nvml_add_links(const struct nvml *n, struct nvml_device *d, struct gpu *g);

/* gpu.fabric; node.nvlink_domain where it is one that nodes share. */
void nvml_add_fabric(const struct nvml *n, struct nvml_device *d, struct node *node,
                     struct gpu *g);

/* source_nvml.c: MIG devices of a GPU; -1 unknown. */
int nvml_count_instances(const struct nvml *n, struct nvml_device *d);

#ifdef __cplusplus
}
#endif
#endif
