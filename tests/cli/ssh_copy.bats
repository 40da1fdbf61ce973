# muster over SSH to hosts that have none: it is copied there (tests/lab/ssh.sh, BARE=1).
load lib
setup_file() { BARE=1 ssh_lab 4; }
teardown_file() { ssh_lab_end; }

setup()
{
    T=$(mktemp -d)
    cd "$T" || exit 1
    [ -z "$NO_LAB" ] || skip "$NO_LAB"
    lab 'rm -rf home'
}

lab() { ssh_lab_run 150 "$1"; }

# copies I: folders of builds in the home of host I
copies() { ls "$D/h$1/home/.cache/muster" 2>/dev/null; }
forget() { for i; do rm -rf "$D/h$i/home/.cache"; done; }

say_names='sh -c "echo \$RANK of \$(hostname)"'

@test "copy: hosts with nothing installed train to the losses of one machine, bit for bit" {
    forget 1 2 3 4
    cat "$SRC/LICENSE" "$SRC"/trainer/*.h >text.txt
    muster data pack -o text.bin text.txt >/dev/null
    cat >tiny.yaml <<-END
	name: tiny
	model: {preset: tiny}
	parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: 2}
	optimizer: {lr: 3e-3}
	cluster: {device: cpu, gpus_per_node: 1, hosts: [node1, node2, node3, node4]}
	training: {seq_len: 32, local_batch_size: 1, global_batch_size: 4, steps: 10, dtype: float32, log_interval: 1}
	data: {path: text.bin, eod_token: 256}
	checks: {level: quick}
	END
    cp tiny.yaml text.bin "$D/shared/"
    sed -i 's/, gpus_per_node.*node4]//' tiny.yaml
    MUSTER_HOME=$T/local muster launch tiny.yaml --gpus 4 --no-check -q
    run node 1 ls /mnt/bare/mnt/build/bin /mnt/bare/usr/bin/muster /mnt/bare"$SRC"
    [ "$status" -ne 0 ]
    lacks muster-train
    run lab 'muster launch tiny.yaml --gpus 4 -q'
    status 0
    lacks mca
    for f in local "$D/shared/home"; do
        cat "$f"/runs/tiny*/events.jsonl | python3 -c '
import json, sys
for line in sys.stdin:
    e = json.loads(line)
    if e["event"] == "step" and e["rank"] == 0:
        print(e["step"], repr(e["loss"]), repr(e["grad_norm"]))' >steps.${#f}
    done
    [ "$(wc -l <steps.5)" -eq 10 ]
    cmp steps.5 "steps.$((${#D} + 12))"
    for i in 1 2 3 4; do
        [ "$(copies $i | wc -l)" -eq 1 ]
        [ "$(stat -c %a "$D/h$i/home/.cache/muster/$(copies $i)")" = 700 ]
        [ -z "$(find "$D/h$i/home/.cache/muster" -perm /077)" ]
    done
}

@test "copy: data that a host cannot read is named before ranks start, and so is a run folder" {
    cat >own.yaml <<-END
	name: own
	model: {preset: tiny}
	cluster: {device: cpu, gpus_per_node: 1, hosts: [node1, node2]}
	training: {seq_len: 32, local_batch_size: 1, global_batch_size: 4, steps: 2, dtype: float32}
	data: {path: "/mnt/lab/own/*.bin", eod_token: 256}
	END
    cp own.yaml "$D/shared/"
    head -c 60000 "$SRC/launcher/node.c" >text.txt
    mkdir -p "$D/home/own"
    muster data pack -o "$D/home/own/text.bin" text.txt >/dev/null
    chmod -R a+rX "$D/home/own"
    mkdir "$D/h1/home/own"
    cp "$D/home/own/text.bin" "$D/h1/home/own/"
    run lab 'muster launch own.yaml --gpus 2 --no-check -q'
    status 3
    has 'node node2: 1 of 1 files of data.path cannot be read there, or are others'
    has '/mnt/lab/own/text.bin: No such file or directory'
    lacks 'node node1'
    cp -r "$D/h1/home/own" "$D/h2/home/"
    truncate -s -2 "$D/h2/home/own/text.bin"
    run lab 'muster launch own.yaml --gpus 2 --no-check -q'
    status 3
    has "node node2: 1 of 1 files"
    has "$(($(stat -c %s "$D/home/own/text.bin") - 2)) bytes there, $(stat -c %s "$D/home/own/text.bin") here"
    cp "$D/h1/home/own/text.bin" "$D/h2/home/own/"
    run lab 'muster launch own.yaml --gpus 2 --no-check -q'
    status 0
    # only checkpoints need a run folder that hosts share
    run lab 'MUSTER_HOME=/mnt/lab/state muster launch own.yaml --gpus 2 --no-check -q'
    status 0
    run lab 'MUSTER_HOME=/mnt/lab/state muster launch own.yaml --gpus 2 --no-check -q --set checkpoint.folder=ckpt'
    status 3
    has ': /mnt/lab/state/runs/own-'
    has 'MUSTER_HOME must be on a file system that all nodes share'
    run lab 'muster launch own.yaml --gpus 2 --no-check -q --set checkpoint.folder=ckpt'
    status 0
}

@test "copy: what is there already is used as it is" {
    run lab "muster launch --gpus 2 --hosts node1,node2 -- $say_names"
    status 0
    before=$(find "$D"/h[12]/home/.cache -type f -exec stat -c '%n %i %Y' {} + | sort)
    [ "$(wc -l <<<"$before")" -gt 50 ]
    run lab "muster launch --gpus 2 --hosts node1,node2 -- $say_names"
    status 0
    [ "$(find "$D"/h[12]/home/.cache -type f -exec stat -c '%n %i %Y' {} + | sort)" = "$before" ]
}

@test "copy: a file that is missing or cut short there is copied again" {
    lab 'muster launch --gpus 1 --hosts node1 -- true'
    at=$D/h1/home/.cache/muster/$(copies 1)
    rm "$at/bin/muster-train"
    truncate -s 1000 "$at"/lib/libpmix.so.2
    run lab "muster launch --gpus 1 --hosts node1 -- $say_names"
    status 0
    has '0 of node1'
    [ -x "$at/bin/muster-train" ]
    [ "$(stat -c %s "$at"/lib/libpmix.so.2)" -gt 100000 ]
}

@test "copy: folders of other builds go when nobody has used them for an hour" {
    at=$D/h1/home/.cache/muster
    mkdir -p "$at"/00000000000000aa/bin "$at"/00000000000000bb "$at"/00000000000000cc "$at/mine"
    touch "$at"/00000000000000aa/bin/muster
    ln -s /mnt/shared "$at"/00000000000000dd
    touch -d '2 hours ago' "$at"/00000000000000aa "$at/mine" "$D/shared"
    touch -h -d '2 hours ago' "$at"/00000000000000dd
    touch -d '10 minutes ago' "$at"/00000000000000bb
    chown -R --reference="$D/h1/home" "$at"
    run lab 'muster launch --gpus 1 --hosts node1 -- true'
    status 0
    [ ! -e "$at"/00000000000000aa ]
    [ -d "$at"/00000000000000bb ]
    [ -L "$at"/00000000000000dd ]
    [ -d "$at/mine" ]
    [ -d "$D/shared" ]
    rm -rf "$at"
}

@test "copy: a muster of another build at the same path is left, and ours is copied" {
    forget 2
    mkdir -p "$D/bare/mnt/build/bin"
    printf '#!/bin/sh\n[ "$4" = --build ] || exit 9\nexit 76\n' >"$D/bare/mnt/build/bin/muster"
    sed -i '2s/$4/$3/' "$D/bare/mnt/build/bin/muster"
    chmod 755 "$D/bare/mnt/build/bin/muster"
    run lab "muster launch --gpus 1 --hosts node2 -- $say_names"
    printf '#!/bin/sh\necho "muster: unknown option --build" >&2\nexit 2\n' >"$D/bare/mnt/build/bin/muster"
    [ "$(copies 2 | wc -l)" -eq 1 ]
    forget 2
    status 0
    run lab "muster launch --gpus 1 --hosts node2 -- $say_names"
    rm "$D/bare/mnt/build/bin/muster"
    status 0
    has '0 of node2'
    lacks 'unknown option'
}

@test "copy: a full disk there is named, with how much is free" {
    forget 2
    node 2 sh -c 'mkdir -p /mnt/lab/.cache; mount -t tmpfs -o size=20m,mode=777 cache /mnt/bare/mnt/lab/.cache'
    run lab 'muster launch --gpus 4 --hosts node1,node2 -- touch started'
    left=$(node 2 find /mnt/bare/mnt/lab/.cache -name '*.*.*.????????????????*')
    node 2 umount /mnt/bare/mnt/lab/.cache
    status 4
    has 'node node2'
    has 'cannot be written, the disk is full: '
    has 'MiB are free there'
    lacks 'node node1'
    [ -z "$left" ]
    [ ! -e "$D/shared/started" ]
}

@test "copy: a home folder without exec, an older glibc, another machine: refused by name" {
    forget 2
    node 2 sh -c 'mount --bind /mnt/lab /mnt/bare/mnt/lab; mount -o remount,bind,noexec /mnt/bare/mnt/lab'
    run lab 'muster launch --gpus 2 --hosts node1,node2 -- true'
    node 2 umount /mnt/bare/mnt/lab
    status 1
    has 'node node2: '
    has 'programs in the home folder do not start (mounted noexec?)'
    printf '#!/bin/sh\necho glibc 2.3\n' >"$D/bare/getconf"
    printf '#!/bin/sh\n[ "$1" = -m ] && echo riscv64 || echo Linux\n' >"$D/bare/uname"
    chmod 755 "$D/bare/getconf" "$D/bare/uname"
    node 2 mount --bind /mnt/bare/getconf /mnt/bare/usr/bin/getconf
    run lab 'muster launch --gpus 2 --hosts node1,node2 -- true'
    node 2 umount /mnt/bare/usr/bin/getconf
    status 1
    has 'node2 has glibc 2.3, this muster needs 2.'
    node 2 mount --bind /mnt/bare/uname /mnt/bare/usr/bin/uname
    run lab 'muster launch --gpus 2 --hosts node1,node2 -- true'
    node 2 umount /mnt/bare/usr/bin/uname
    status 1
    has 'node2 is Linux on riscv64'
    [ -z "$(copies 2)" ]
}

@test "copy: a folder that others may enter, or a link in its place, is refused" {
    lab 'muster launch --gpus 1 --hosts node1 -- true'
    at=$D/h1/home/.cache/muster/$(copies 1)/lib
    chmod 755 "$at"
    run lab 'muster launch --gpus 1 --hosts node1 -- true'
    chmod 700 "$at"
    status 1
    has 'is not a private folder'
    mv "$at" "$at.real"
    ln -s lib.real "$at"
    run lab 'muster launch --gpus 1 --hosts node1 -- true'
    rm "$at"
    mv "$at.real" "$at"
    status 1
    has 'is not a private folder'
}

@test "copy: an sshd without SFTP is named, with the cure" {
    sed -i 's/^Subsystem/#&/' "$D/h3/sshd_config"
    node 3 sh -c 'kill -HUP $(cat /mnt/host/sshd.pid)'
    forget 3
    for _ in $(seq 50); do lab 'ssh -i ~/.ssh/id_ed25519 node3 true' && break; sleep 0.1; done
    run lab 'muster launch --gpus 1 --hosts node3 -- true'
    sed -i 's/^#Subsystem/Subsystem/' "$D/h3/sshd_config"
    node 3 sh -c 'kill -HUP $(cat /mnt/host/sshd.pid)'
    for _ in $(seq 50); do lab 'ssh -i ~/.ssh/id_ed25519 node3 true' && break; sleep 0.1; done
    status 4
    has 'node node3: its sshd offers no SFTP'
    has 'Subsystem sftp internal-sftp'
}

@test "copy: over a slow line it says how far it is, and its deadlines wait" {
    forget 4
    sh "$LAB" slow "$D" 4 60mbit
    run lab "muster launch --gpus 1 --hosts node4 -- $say_names"
    sh "$LAB" slow "$D" 4 off
    status 0
    has '0 of node4'
    has 'copying muster to 1 host that had not this build: '
}

@test "copy: a launcher killed while it copies leaves nothing running, and the next one goes on" {
    forget 4
    sh "$LAB" slow "$D" 4 40mbit
    lab 'muster launch --gpus 1 --hosts node4 -- true & echo $! >pid; wait' >/dev/null 2>&1 &
    for _ in $(seq 200); do
        [ -n "$(find "$D/h4/home/.cache" -type f -size +1000 2>/dev/null)" ] && break
        sleep 0.05
    done
    lab 'kill -KILL $(cat pid)'
    for _ in $(seq 150); do
        node 0 pgrep -f 'agent ssh' >/dev/null || node 4 pgrep -f 'sshd: |sftp' >/dev/null || break
        sleep 0.1
    done
    sh "$LAB" slow "$D" 4 off
    run node 0 pgrep -f 'agent ssh'
    [ "$status" -ne 0 ]
    run lab "muster launch --gpus 1 --hosts node4 -- $say_names"
    status 0
    has '0 of node4'
}
