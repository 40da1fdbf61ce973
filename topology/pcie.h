/* pcie.h - is a PCIe link as fast as it can be? (case D07) */
#ifndef TOPOLOGY_PCIE_H
#define TOPOLOGY_PCIE_H

#ifdef __cplusplus
extern "C" {
#endif

struct topology;

/* Generations 1-6 and lanes, now and at most; -1 unknown.  busy: 1 the device works, 0 it
 * idles (then it may save power: its generation says nothing), -1 unknown. */
struct pcie_link {
    int gen, max_gen;
    int width, max_width;
    int busy;
};
enum { PCIE_NEVER_IDLES = 2 }; /* busy: a NIC or a switch, whose link keeps its rate */

/* Findings about the link of `busid` (or another word for it):
 *   fail  fewer lanes than there are, or a lower generation under load or of what never
 *         idles
 *   note  a lower generation while idle: to be looked at again under load
 *   warn  a best generation below usual_gen, what its like can do (-1: not known) */
void pcie_inspect(struct topology *t, const char *object, const char *busid,
                  const struct pcie_link *l, int usual_gen);

/* "16.0 GT/s PCIe" is 4; -1 unknown. */
int pcie_generation(const char *speed);

/* The best generation that more than half of n links have; -1 none. */
int pcie_usual_gen(const struct pcie_link *l, int n);

#ifdef __cplusplus
}
#endif
#endif
