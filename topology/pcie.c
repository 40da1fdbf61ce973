#include "topology/pcie.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "topology/topology.h"

int pcie_generation(const char *speed)
{
    static const double gt_per_s[] = { 2.5, 5, 8, 16, 32, 64 };
    char *end;
    double gt = strtod(speed, &end);

    for (size_t i = 0; end != speed && i < ARRAY_LEN(gt_per_s); i++)
        if (gt > gt_per_s[i] - 0.1 && gt < gt_per_s[i] + 0.1)
            return (int)i + 1;
    return -1;
}

int pcie_usual_gen(const struct pcie_link *l, int n)
{
    int count[8] = { 0 }, known = 0;

    for (int i = 0; i < n; i++)
        if (l[i].max_gen > 0 && l[i].max_gen < 8) {
            count[l[i].max_gen]++;
            known++;
        }
    for (int gen = 1; gen < 8; gen++)
        if (count[gen] * 2 > known)
            return gen;
    return -1;
}

void pcie_inspect(struct topology *t, const char *object, const char *busid,
                  const struct pcie_link *l, int usual_gen)
{
    if (l->width > 0 && l->max_width > 0 && l->width < l->max_width)
        topology_find_once(
            t, SEVERITY_FAIL, object,
            "PCIe link of %s has %d of %d lanes: reseat the card or the riser", busid,
            l->width, l->max_width);
    if (l->gen > 0 && l->max_gen > 0 && l->gen < l->max_gen) {
        if (l->busy > 0)
            topology_find_once(t, SEVERITY_FAIL, object,
                               "PCIe link of %s runs at Gen%d of Gen%d%s: reseat the "
                               "card or the riser",
                               busid, l->gen, l->max_gen,
                               l->busy == 1 ? " under load" : "");
        else
            topology_find_once(
                t, SEVERITY_NOTE, object,
                "PCIe link of %s is at Gen%d of Gen%d while it idles, as "
                "cards do to save power: look again under load",
                busid, l->gen, l->max_gen);
    }
    if (l->max_gen > 0 && l->max_gen < usual_gen)
        topology_find_once(t, SEVERITY_WARN, object,
                           "PCIe link of %s can do Gen%d at most, its like Gen%d: look "
                           "for another slot, a riser, or a setting of the firmware",
                           busid, l->max_gen, usual_gen);
}
