/* xid.h - what the NVIDIA driver writes into the kernel's log when a GPU fails. */
#ifndef CHECKS_XID_H
#define CHECKS_XID_H

/* "... NVRM: Xid (PCI:0000:18:00): 79, pid=..." anywhere in a line: the number and the bus
 * id ("0000:18:00.0"); 0 where there is none. */
int xid_in_line(const char *line, char busid[20]);

/* One that means the GPU needs a reset or a replacement, not that a program of its was at
 * fault: Azure's node health checks, and 95. */
int xid_is_fatal(int xid);

#endif
