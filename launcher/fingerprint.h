/* fingerprint.h - do two runs stand on the same machines?
 *
 * 16 hex digits over what decides speed and place: node names, CPUs, memory,
 * GPUs with model and bus, NICs with rate, switches.  Not over what changes by
 * itself: boot ids, link states, findings, the source that told. */
#ifndef LAUNCHER_FINGERPRINT_H
#define LAUNCHER_FINGERPRINT_H

struct topology;

void topology_fingerprint(const struct topology *t, char out[17]);

#endif
