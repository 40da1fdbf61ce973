#include "topology/gpu_model.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

/* The first that fits: boards before their chip. */
static const struct gpu_model models[] = {
    { "V100-SXM", 6, 0 },   { "A100-SXM", 12, 0 },       { "A800-SXM", 8, 0 },
    { "A100-PCI", 12, 1 },  { "A100 80GB PCIe", 12, 1 }, { "H100 NVL", 12, 1 },
    { "H100 PCIe", 12, 1 }, { "H100 80GB HBM3", 18, 0 }, { "H200 NVL", 18, 1 },
    { "GH200", 18, 1 },     { "H200", 18, 0 },           { "H800", 8, 1 },
    { "H20", 18, 0 },       { "GB200", 18, 0 },          { "GB300", 18, 0 },
    { "B200", 18, 0 },      { "B300", 18, 0 },
};

const struct gpu_model *gpu_model_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(models); i++)
        if (strstr(name, models[i].name))
            return &models[i];
    return NULL;
}
