#include "checks/xid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topology/topology.h"

int xid_in_line(const char *line, char busid[20])
{
    static const char start[] = "NVRM: Xid (PCI:";
    const char *at = strstr(line, start), *close;
    char bus[24];
    long xid;

    if (!at)
        return 0;
    at += sizeof(start) - 1;
    close = strstr(at, "): ");
    if (!close || close - at > 16)
        return 0;
    xid = strtol(close + 3, NULL, 10);
    if (xid <= 0 || xid > 100000)
        return 0;
    snprintf(bus, sizeof(bus), "%.*s%s", (int)(close - at), at,
             memchr(at, '.', (size_t)(close - at)) ? "" : ".0");
    busid_normalise(bus, busid);
    return (int)xid;
}

int xid_is_fatal(int xid)
{
    static const int fatal[] = { 48, 56, 57, 58, 62, 63, 64, 65,  68, 69,
                                 73, 74, 79, 80, 81, 92, 95, 119, 120 };

    for (size_t i = 0; i < ARRAY_LEN(fatal); i++)
        if (fatal[i] == xid)
            return 1;
    return 0;
}
