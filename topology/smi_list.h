/* smi_list.h - what nvidia-smi prints GPU by GPU, in four forms: `nvlink --status`, `-L`
 * (with MIG devices), `-q` (fabric and MIG), and `--query-gpu=index,... --format=csv`
 * (identity, MIG mode, PCIe link).  Private to source_smi.c. */
#ifndef TOPOLOGY_SMI_LIST_H
#define TOPOLOGY_SMI_LIST_H

#ifdef __cplusplus
extern "C" {
#endif

struct topology;

int smi_list_is(const char *text);

/* Adds GPUs to node 0 and findings of their PCIe links; text is cut up.  0: it is no such
 * list, and nothing was added. */
int smi_list_read(char *text, struct topology *t);

#ifdef __cplusplus
}
#endif
#endif
