/* argv as a line for the remote shell. */
#include "base/str.h"
#include "launcher/secret.h"
#include "launcher/ssh.h"

void ssh_add_command(struct str *s, char *const *argv)
{
    str_adds(s, "exec");
    for (int i = 0; argv[i]; i++) {
        str_adds(s, " ");
        shell_add_word(s, argv[i]);
    }
}
