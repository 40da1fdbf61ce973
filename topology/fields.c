#include "topology/fields.h"

#include <stdint.h>
#include <string.h>

#include "topology/topology.h"

/* clang-format off */
#define FIELD(s, type, name) { #name, type, offsetof(struct s, name), sizeof(((struct s *)0)->name) }
#define END { NULL, FIELD_INT, 0, 0 }
const struct field node_fields[] = {
    FIELD(node, FIELD_TEXT, name),
    FIELD(node, FIELD_TEXT, boot_id),
    FIELD(node, FIELD_TEXT, arch),
    FIELD(node, FIELD_TEXT, cpu_vendor),
    FIELD(node, FIELD_INT, cpu_family),
    FIELD(node, FIELD_INT, cpu_version),
    FIELD(node, FIELD_TEXT, cpu_model),
    FIELD(node, FIELD_INT, sockets),
    FIELD(node, FIELD_INT, cores),
    FIELD(node, FIELD_INT, threads),
    FIELD(node, FIELD_INT64, memory_bytes),
    FIELD(node, FIELD_INT, leaf),
    FIELD(node, FIELD_TEXT, nvlink_domain),
    FIELD(node, FIELD_TEXT, driver),
    FIELD(node, FIELD_INT, nvswitches),
    END
};
const struct field numa_fields[] = {
    FIELD(numa, FIELD_INT, id),
    FIELD(numa, FIELD_TEXT, cpus),
    FIELD(numa, FIELD_INT64, memory_bytes),
    END
};
const struct field pci_fields[] = {
    FIELD(pci, FIELD_TEXT, busid),
    FIELD(pci, FIELD_INT, above),
    FIELD(pci, FIELD_INT, numa),
    FIELD(pci, FIELD_TEXT, class),
    FIELD(pci, FIELD_TEXT, vendor),
    FIELD(pci, FIELD_TEXT, device),
    FIELD(pci, FIELD_TEXT, subsystem_vendor),
    FIELD(pci, FIELD_TEXT, subsystem_device),
    FIELD(pci, FIELD_TEXT, link_speed),
    FIELD(pci, FIELD_INT, link_width),
    END
};
const struct field gpu_fields[] = {
    FIELD(gpu, FIELD_INT, index),
    FIELD(gpu, FIELD_TEXT, busid),
    FIELD(gpu, FIELD_TEXT, name),
    FIELD(gpu, FIELD_TEXT, uuid),
    FIELD(gpu, FIELD_INT, sm),
    FIELD(gpu, FIELD_INT, numa),
    FIELD(gpu, FIELD_INT64, memory_bytes),
    FIELD(gpu, FIELD_REAL, pcie_gbytes_per_s),
    FIELD(gpu, FIELD_INT, mig),
    FIELD(gpu, FIELD_INT, gdr),
    FIELD(gpu, FIELD_INT, mig_instances),
    FIELD(gpu, FIELD_INT, nic),
    FIELD(gpu, FIELD_TEXT, nic_path),
    FIELD(gpu, FIELD_TEXT, fabric),
    FIELD(gpu, FIELD_TEXT, links_down),
    END
};
const struct field nvlink_fields[] = {
    FIELD(nvlink, FIELD_TEXT, peer),
    FIELD(nvlink, FIELD_TEXT, peer_class),
    FIELD(nvlink, FIELD_INT, count),
    FIELD(nvlink, FIELD_REAL, gbytes_per_s),
    END
};
const struct field nic_fields[] = {
    FIELD(nic, FIELD_TEXT, name),
    FIELD(nic, FIELD_TEXT, busid),
    FIELD(nic, FIELD_TEXT, guid),
    FIELD(nic, FIELD_TEXT, image_guid),
    FIELD(nic, FIELD_INT, port),
    FIELD(nic, FIELD_TEXT, address),
    FIELD(nic, FIELD_KIND, kind),
    FIELD(nic, FIELD_LAYER, layer),
    FIELD(nic, FIELD_INT, up),
    FIELD(nic, FIELD_TEXT, state),
    FIELD(nic, FIELD_INT, numa),
    FIELD(nic, FIELD_INT, rail),
    FIELD(nic, FIELD_INT, plane),
    FIELD(nic, FIELD_INT, gid),
    FIELD(nic, FIELD_TEXT, why),
    FIELD(nic, FIELD_REAL, gbits_per_s),
    FIELD(nic, FIELD_INT, leaf),
    END
};
const struct field switch_fields[] = {
    FIELD(fabric_switch, FIELD_TEXT, name),
    FIELD(fabric_switch, FIELD_TEXT, guid),
    FIELD(fabric_switch, FIELD_INT, level),
    FIELD(fabric_switch, FIELD_TEXT, kind),
    FIELD(fabric_switch, FIELD_INT, link_speed),
    END
};
const struct field link_fields[] = {
    FIELD(fabric_link, FIELD_INT, from),
    FIELD(fabric_link, FIELD_INT, to),
    FIELD(fabric_link, FIELD_INT, count),
    FIELD(fabric_link, FIELD_REAL, gbits_per_s),
    END
};
/* clang-format on */

static int is_unknown(const struct field *f, const void *at)
{
    switch (f->type) {
    case FIELD_INT:
        return *(const int *)at == -1;
    case FIELD_INT64:
        return *(const int64_t *)at == -1;
    case FIELD_REAL:
        return *(const double *)at < 0;
    case FIELD_KIND:
        return *(const enum nic_kind *)at == NIC_UNKNOWN;
    case FIELD_LAYER:
        return *(const enum link_layer *)at == LINK_UNKNOWN;
    case FIELD_TEXT:
        break;
    }
    return *(const char *)at == '\0';
}

void fields_fill(const struct field *table, void *to, const void *from)
{
    for (const struct field *f = table; f->key; f++)
        if (is_unknown(f, (char *)to + f->at))
            memcpy((char *)to + f->at, (const char *)from + f->at, f->size);
}
