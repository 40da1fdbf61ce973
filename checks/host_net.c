/* host_net.c - what this machine calls itself. */
#include <math.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/err.h"
#include "checks/host.h"
#include "checks/measure.h"
#include "trainer/wireup_rules.h"

void host_measure_resolve(const char *name, int machines, struct measures *out)
{
    struct measure *m = measures_add(out, "resolve", name, name);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    struct err err = ERR_INIT;
    char address[64] = "";
    int rc = getaddrinfo(name, NULL, &hints, &list);

    measure_set(m, 0, NAN, "faults");
    if (rc != 0) {
        m->value = machines > 1;
        measure_say(m, "%s does not resolve: %s", name, gai_strerror(rc));
        return;
    }
    getnameinfo(list->ai_addr, list->ai_addrlen, address, sizeof(address), NULL, 0,
                NI_NUMERICHOST);
    freeaddrinfo(list);
    measure_say(m, "%s is %s", name, address);
    if (wireup_check_master(name, address, machines, "/etc/hosts", &err)) {
        m->value = 1;
        measure_say(m, "%s", err_text(&err));
    }
    err_release(&err);
}
