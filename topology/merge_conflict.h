/* merge_conflict.h - two sources that both know, and do not say the same.  Private to
 * topology_merge(). */
#ifndef TOPOLOGY_MERGE_CONFLICT_H
#define TOPOLOGY_MERGE_CONFLICT_H

#ifdef __cplusplus
extern "C" {
#endif

struct gpu;
struct nic;
struct node;
struct topology;

/* Both sources, for words. */
struct sources {
    struct topology *t; /* findings go here */
    const char *mine, *theirs;
};

/* A finding for each respect in which they differ; what is mine stays. */
void conflict_gpu(const struct sources *s, const struct node *n, const struct gpu *mine,
                  const struct gpu *theirs);
void conflict_nic(const struct sources *s, const struct node *n, const struct nic *mine,
                  const struct nic *theirs);

#ifdef __cplusplus
}
#endif
#endif
