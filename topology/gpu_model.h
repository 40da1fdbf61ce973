/* gpu_model.h - what a GPU of a known model must have, whatever its neighbours have.
 *
 * NVLinks that are active on a healthy board: NVIDIA's data sheets and, for boards that
 * leave some unused, the listings of healthy ones (H100 NVL: 12 of 18, case A02).  Boards
 * that carry NVLink only with a bridge, or only in some systems, may have none. */
#ifndef TOPOLOGY_GPU_MODEL_H
#define TOPOLOGY_GPU_MODEL_H

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_model {
    const char *name; /* a part of the driver's name of it */
    int nvlinks;
    int bridged; /* 1: none at all is right too */
};

/* NULL: not known, so nothing is expected of it. */
const struct gpu_model *gpu_model_find(const char *name);

#ifdef __cplusplus
}
#endif
#endif
