/* elf_needs.h - which libraries a program or a library asks for, from the file itself:
 * nothing of it is loaded or run. */
#ifndef LAUNCHER_ELF_NEEDS_H
#define LAUNCHER_ELF_NEEDS_H

struct err;
struct strlist;

/* Adds the name of every library that `path` names itself (DT_NEEDED, in order).
 * ERR_MISSING: no such file; ERR_USAGE: it is no 64-bit ELF file of this byte order, or
 * it is damaged. */
int elf_needs(const char *path, struct strlist *out, struct err *err);

#endif
