#!/usr/bin/env bats
# ~/.ssh/config is read as ssh reads it: our reading beside `ssh -G`, keyword by keyword.
load lib

# The part of ssh -G that we read; its own default key names differ between versions.
theirs()
{
    ssh -G -F "$1" "$2" </dev/null 2>theirs.err | grep -E '^(user|hostname|port|identityfile|proxyjump|hostkeyalias|identitiesonly) ' |
        { if ssh -G -F "$1" "$2" </dev/null 2>/dev/null | grep -q '^identityfile ~/.ssh/id_ecdsa_sk$'; then grep -v ^identityfile; else cat; fi; } | sort
}

ours() { ssh_try -F "$1" config "$2" 2>ours.err | sort; }

# same FILE HOST...: both say the same about every host
same()
{
    command -v ssh >/dev/null || skip 'no ssh here to compare with'
    file=$1
    shift
    for host; do
        theirs "$file" "$host" >want
        ours "$file" "$host" >got
        [ -s want ] || { echo "ssh says nothing about $host: $(cat theirs.err)"; return 1; }
        diff want got || { echo "($host of $file)"; cat "$file" ours.err; return 1; }
    done
}

# both_refuse FILE HOST
both_refuse()
{
    ! ssh -G -F "$1" "$2" >/dev/null 2>&1 || { echo 'ssh takes it'; return 1; }
    run ssh_try -F "$1" config "$2"
    status 2
    has "$1:"
}

@test "C10: the case's file, as the case says and as ssh says" {
    c="$SRC/tests/cases/c10_ssh_config"
    run ssh_try -F "$c" config node-a
    has 'hostname 10.9.0.11'
    has 'port 11111'
    has 'user svc'
    has 'proxyjump bastion'
    run ssh_try -F "$c" route node-a
    [ "$output" = "$(id -un)@bastion.example.test:22"$'\n''svc@10.9.0.11:11111' ]
    run ssh_try -F "$c" config node-b
    has 'port 2200'
    lacks proxyjump
    run ssh_try -F "$c" route node-b
    [ "$output" = "$(id -un)@node-b:2200" ]
    same "$c" node-a node-b bastion other node-
}

@test "patterns, negation, first value, case" {
    cat >c <<'X'
User early
Host gn* !gn0? *.x
    Port 2001
Host !gn01
    User never
Host gn?? login
    User late
    HostName %h.cluster
    IdentityFile ~/.ssh/one
Host GN*
    Port 2002
    HostName CAPS.%h
Host p
    HostName a%%b%h
Host *
    IdentityFile ~/.ssh/two
    IdentityFile ~/.ssh/one
    identitiesonly YES
    HostKeyAlias all
X
    same c gn01 gn1 gn10 gn100 GN7 login a.x x gn0 LOGIN p
}

@test "quotes, equals signs, comments, blanks, escapes" {
    printf 'Host "a b" c"d" \x27e f\x27 g\\ h\n\tPort=2001\nHost = i\n\tPort = 2002 # why\n\tHostName "h i"\n' >c
    printf '   # a comment\n\nHost j #k\n  User   "x y"  \n  IdentityFile "/a b/c"\nHost l\r\n  Port 77\r\n' >>c
    printf 'Host m\n IdentityFile "a\\"b"\n IdentityFile c\\d\n IdentityFile \x27e"f\x27\n"Port" 5\n' >>c
    same c i j k l m '#k'
}

@test "Match: all, host, originalhost, user, localuser, negation" {
    me=$(id -un)
    cat >c <<X
Match originalhost one
    HostName real.one
Match host real.*
    Port 3001
Match !host real.* originalhost t*
    Port 3002
Host two
    User bob
Match user bob,alice
    ProxyJump gate
Match localuser $me host *e
    IdentityFile /k/me
Match !localuser $me
    IdentityFile /k/other
Match host "one,two" all
    HostKeyAlias both
Match all
    Port 3003
X
    same c one two three ONE x
}

@test "Match final reads the files once more" {
    printf 'Match final host real\n Port 44\nHost a\n HostName REAL\nMatch canonical all\n User q\n' >c
    same c a b
}

@test "ProxyJump: chains, users, ports, addresses, none, and against ProxyCommand" {
    cat >c <<'X'
Host a
    ProxyJump u1@j1:2201,u2@j2
Host b
    ProxyJump none
Host c
    ProxyJump 10.0.0.1
Host d
    ProxyJump [fe80::1]:2222
Host e
    ProxyCommand none
Host f
    ProxyJump ssh://u@j3:99
Host g
    ProxyJump=j4
Host *
    ProxyJump last
X
    same c a b c d e f g h
    cat >r <<'X'
Host t
    ProxyJump j1,u@j2:33
Host j2
    ProxyJump elsewhere
    User no
Host j1
    ProxyJump j0
    Port 44
X
    run ssh_try -F r route svc@t:55
    [ "$output" = "$(printf '%s\n' "$(id -un)@j0:22" "$(id -un)@j1:44" u@j2:33 svc@t:55)" ]
}

@test "jumps in a circle are refused" {
    printf 'Host a\n ProxyJump b\nHost b\n ProxyJump a\nHost c\n ProxyJump c\n' >c
    run ssh_try -F c route a
    status 2
    has 'circle'
    run ssh_try -F c route c
    status 2
    printf 'Host *\n ProxyJump gate\n' >c
    run ssh_try -F c route x
    status 2
    has 'circle at gate'
}

@test "Include: globs, order, blocks, nesting" {
    mkdir d
    printf 'Port 4001\n' >d/1.conf
    printf 'Host in\n Port 4002\n User inc\nInclude %s/d/deep\n' "$T" >d/2.conf
    printf 'IdentityFile /deep\n' >d/deep
    cat >c <<X
Host x
    Include $T/d/1.conf
    User outer
Include "$T/d/[2].conf" $T/d/none*
User after
Host y
    Include $T/d/2.conf
X
    same c x y in z
    printf 'Include %s/loop\n' "$T" >loop
    run ssh_try -F loop config x
    status 2
    has 'in a circle'
    chmod 666 d/1.conf
    both_refuse c x
}

@test "what ssh refuses, we refuse: FILE:LINE, all problems at once" {
    for bad in 'Port x' 'Port 0' 'Port 65536' 'Port 22 23' 'Host "a' 'User' 'IdentitiesOnly maybe' \
        'Match host' 'Match host a user b all' 'ProxyJump a,,b' 'ProxyJump a:0' 'IdentityFile a b' 'ConnectTimeout x' \
        'AddressFamily inet5' 'HostName' 'HostName =' 'ProxyJump =' 'Match'; do
        printf 'Host *\n%s\n' "$bad" >c
        both_refuse c x || { echo "with: $bad"; return 1; }
    done
    printf 'Port x\nPort y\nHost z\nPort 70000\n' >c
    run ssh_try -F c config x
    has c:1:
    has c:2:
    has c:4:
    printf 'HostName %%d\n' >c
    run ssh_try -F c config x
    status 2
}

@test "what we do not do is refused where it applies, by name" {
    for bad in 'ProxyCommand nc %h %p' 'Match exec true' 'CanonicalizeHostname yes' 'BindAddress 10.0.0.1'; do
        printf 'Host other\n%s\n' "$bad" >c
        printf 'Host x\n' >d
        printf '%s\n' "$bad" >>d
        run ssh_try -F d config x
        status 2
        has "$(echo "$bad" | cut -d' ' -f1)"
        has 'not supported'
    done
    printf 'Host other\n ProxyCommand nc\n CanonicalizeHostname yes\nHost x\n ProxyJump j\n ProxyCommand nc\n' >c
    same c x
}

@test "a file that is not there, and no file" {
    run ssh_try -F none_such config x
    status 3
    has 'none_such: no such file'
    run ssh_try -F none config x
    status 0
    has 'port 22'
}
