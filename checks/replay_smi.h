/* replay_smi.h - what nvidia-smi printed, as readings of GPUs: of its -q (the sections of
 * ECC, MIG, remapped rows and fabric), of -L, and of --query-gpu as CSV or TSV with a
 * header.  Texts about the same GPUs may be read one after the other. */
#ifndef CHECKS_REPLAY_SMI_H
#define CHECKS_REPLAY_SMI_H

#include <stdint.h>

#include "checks/gpu.h"

struct err;
struct measures;

struct smi {
    struct gpu_state *gpu; /* owned */
    uint64_t *asked;       /* owned; what the texts said something about */
    int n;
};

int smi_fits(const char *text);
/* `where` names the text in messages; ERR_USAGE with the line that cannot be read. */
int smi_read(struct smi *s, const char *text, const char *where, struct err *err);
/* As a live check would have measured them, without a host. */
void smi_measure(const struct smi *s, struct measures *out);
void smi_release(struct smi *s);

#endif
