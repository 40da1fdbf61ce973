#!/bin/sh
# demo_data.sh FOLDER - real text of this machine as FOLDER/text.bin, a token shard.
#
# Uses what every Debian and Ubuntu has, minimal images too: the full licence
# texts in /usr/share/common-licenses, then Perl's own modules with their
# documentation (perl-base is essential: /usr/lib/*/perl-base), then the
# copyright files of packages until LIMIT bytes are reached.  A machine always
# makes the same shard.
set -eu
[ $# -eq 1 ] || { echo 'usage: demo_data.sh FOLDER' >&2; exit 2; }
LIMIT=3000000 LEAST=1000000
list=$(mktemp)
trap 'rm -f "$list"' EXIT

# Regular files only: many names are links to the same text.
candidates()
{
    find /usr/share/common-licenses -type f 2>/dev/null | LC_ALL=C sort
    find /usr/lib/*/perl-base /usr/share/perl /usr/share/perl5 -type f \
        \( -name '*.pod' -o -name '*.pm' \) 2>/dev/null | LC_ALL=C sort
    find /usr/share/doc -mindepth 2 -maxdepth 2 -type f -name copyright 2>/dev/null | LC_ALL=C sort
}

# Take files until LIMIT; none over 300 kB, so that no table of characters
# (Perl has some) fills the set.  Then in an order that is mixed, but always the
# same: the end of the shard, which recipes hold out for validation, should read
# like the rest.
candidates | xargs -r stat -L -c '%s %n' |
    awk -v limit=$LIMIT '$1 > 0 && $1 < 300000 && total + $1 <= limit {
        total += $1; print substr($0, index($0, " ") + 1) }' |
    LC_ALL=C sort -R --random-source="$0" >"$list"
bytes=$(tr '\n' '\0' <"$list" | xargs -0 cat | wc -c)
if [ "$bytes" -lt $LEAST ]; then
    echo "demo_data.sh: only $bytes bytes of text on this machine, $LEAST are needed:" \
        'apt-get install perl-doc' >&2
    exit 3
fi
mkdir -p "$1"
# One call whatever the number of files: xargs would split and overwrite.
set -f
IFS='
'
# shellcheck disable=SC2046 # one word a line
muster data pack -o "$1/text.bin" $(cat "$list")
echo "text of this machine: $bytes bytes in $(wc -l <"$list") files"
