/* source.h - the sources one by one, for topology_from_source() and each other. */
#ifndef TOPOLOGY_SOURCE_H
#define TOPOLOGY_SOURCE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct topology;

/* As topology_from_host(), without NVML and without findings of inspection. */
int topology_from_sysfs(const char *root, struct topology **out, struct err *err);

/* Only what NVML shows, on a node named after this host. */
int topology_from_nvml(struct topology **out, struct err *err);

/* A specification from memory; `where` names it in messages. */
int topology_from_spec_text(const char *text, size_t len, const char *where,
                            struct topology **out, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
