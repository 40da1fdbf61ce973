/* fields.h - the members of the topology structs as tables, so that saving, loading
 * and merging treat each one alike.  A table ends with key NULL. */
#ifndef TOPOLOGY_FIELDS_H
#define TOPOLOGY_FIELDS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum field_type {
    FIELD_INT,
    FIELD_INT64,
    FIELD_REAL,
    FIELD_TEXT,
    FIELD_KIND, /* enum nic_kind */
    FIELD_LAYER /* enum link_layer */
};

struct field {
    const char *key;
    enum field_type type;
    size_t at, size;
};

extern const struct field node_fields[], numa_fields[], pci_fields[], gpu_fields[],
    nvlink_fields[], nic_fields[], switch_fields[], link_fields[];

/* Members that are unknown in `to` (-1, "", NIC_UNKNOWN) take the value of `from`. */
void fields_fill(const struct field *table, void *to, const void *from);

#ifdef __cplusplus
}
#endif
#endif
