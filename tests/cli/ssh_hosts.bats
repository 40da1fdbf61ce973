# topo, check, plan, climb over SSH; hosts that cannot be what they are said to be; ways in.
load lib
setup_file() { ssh_lab 3; }
teardown_file() { ssh_lab_end; }

setup()
{
    T=$(mktemp -d)
    cd "$T" || exit 1
    [ -z "$NO_LAB" ] || skip "$NO_LAB"
    lab 'rm -rf home ~/.ssh/config; [ -e ~/known ] || cp ~/.ssh/known_hosts ~/known; cp ~/known ~/.ssh/known_hosts'
}

lab() { ssh_lab_run 150 "$1"; }

# recipe NAME: a small one with its data, in the folder that all hosts share
recipe()
{
    if [ ! -e "$D/shared/text.bin" ]; then
        cat "$SRC/LICENSE" "$SRC"/trainer/*.h >text.txt
        muster data pack -o "$D/shared/text.bin" text.txt >/dev/null
    fi
    cat >"$D/shared/$1.yaml" <<-END
	name: $1
	model: {preset: tiny}
	parallelism: {data_parallel_shard_degree: -1}
	cluster: {device: cpu, gpus_per_node: 1}
	training: {seq_len: 32, local_batch_size: 1, global_batch_size: 4, steps: 4, dtype: float32, log_interval: 1}
	data: {path: text.bin, eod_token: 256}
	checks: {level: quick}
	scale: {rungs: [1, 2], trial_steps: 3, trial_warmup: 1, sweep: {training.local_batch_size: [1, 2]}}
	END
    chmod a+r "$D/shared/text.bin" "$D/shared/$1.yaml"
}

# object: the JSON object of the last `run`, without the lines of progress before it
object() { sed -n '/^{/,$p' <<<"$output"; }
# py SCRIPT: python with that object as `o`
py() { object | python3 -c "import json, sys; o = json.load(sys.stdin); $1"; }

@test "hosts: topo shows each host as its own agent sees it" {
    run lab 'muster topo --hosts node1,node3 --json'
    status 0
    py 'assert [n["name"] for n in o["nodes"]] == ["node1", "node3"]
assert [n["nics"][0]["address"] for n in o["nodes"]] == ["10.99.0.1", "10.99.0.3"], o["nodes"]
assert len({n["boot_id"] for n in o["nodes"]}) == 2'
    run lab 'muster topo --hosts node1 --hostfile x'
    status 2
    has '--hosts, --hostfile and --cluster each name the machines'
    run lab 'muster topo --hosts node1,node8'
    status 3
    has 'node node8: '
}

@test "hosts: check runs on each and names it; without a recipe, too" {
    run lab 'muster check --hosts node[1-3] --level quick --json'
    status 0
    py 'v = o["verdicts"]
assert {x["object"] for x in v if x["name"] == "memory"} == {"node1", "node2", "node3"}
assert any(x["name"] == "all_gather.result" and x["object"].endswith("ranks 0-2") for x in v)'
    # the recipe itself need not be where the hosts can read it
    recipe checked
    mv "$D/shared/checked.yaml" "$D/home/"
    run lab 'muster check ~/checked.yaml --gpus 2 --hosts node1,node2'
    status 0
    has ' node2 '
    run lab 'muster check --gpus 2'
    status 2
    has 'RECIPE or --hosts is missing'
}

@test "hosts: a check that fails on one host names it and keeps a launch from starting" {
    recipe held
    node 2 sh -c 'sed "s/^10.99.0.2 /127.0.1.1 /" /etc/hosts >/mnt/host/own; mount --bind /mnt/host/own /etc/hosts'
    run lab 'muster check held.yaml --gpus 2 --hosts node1,node2 --json'
    checked=$status
    cp /dev/stdin check.txt <<<"$output"
    run lab 'muster launch held.yaml --gpus 2 --hosts node1,node2'
    node 2 umount /etc/hosts
    status 1
    has 'nothing was started'
    has 'node2'
    lacks ', node1'
    [ "$checked" -eq 1 ]
    output=$(cat check.txt)
    py 'assert {v["object"] for v in o["verdicts"] if v["result"] == "fail"} == {"node2"}, o
assert o["exclude"] == ["node2"], o["exclude"]'
}

@test "hosts: plan lays ranks on the hosts, in their order" {
    recipe planned
    run lab 'muster plan planned.yaml --gpus 2 --hosts node3,node1 --json'
    status 0
    py 'assert [r["node"] for r in o["ranks"]] == ["node3", "node1"], o["ranks"]
assert o["commands"][0] == "muster launch planned.yaml --gpus 2 --hosts node3,node1", o["commands"]'
    run lab 'printf "node2 slots=2\nnode1 slots=1\n" >file; sed -i "s/, gpus_per_node: 1//; s/global_batch_size: 4/global_batch_size: 3/" planned.yaml; muster plan planned.yaml --gpus 3 --hostfile file --json'
    status 0
    py 'assert [r["node"] for r in o["ranks"]] == ["node2", "node2", "node1"], o["ranks"]'
}

@test "hosts: the trials of a climb run on them, and so do those of one that is resumed" {
    recipe climbed
    run lab 'muster climb climbed.yaml --hosts node2,node3 --json'
    status 0
    py 'assert o["winner"], o
assert [r["gpus"] for r in o["rungs"]] == [1, 2], o["rungs"]'
    for run in "$D"/shared/home/runs/climbed-*; do
        grep -q node2 "$run/plan.json"
    done
    [ "$(grep -l node3 "$D"/shared/home/runs/climbed-*/plan.json | wc -l)" -ge 1 ]
    run lab 'muster climb climbed.yaml --hosts node2,node3 >out 2>&1 & for i in $(seq 300); do grep -q "tokens/s/GPU" out && break; sleep 0.1; done; kill -TERM $!; wait $!; echo "ended $?"; sed -n "s/^muster: climb //p" out'
    has 'ended 143'
    climb=$(tail -1 <<<"$output")
    rm -rf "$D"/shared/home/runs/climbed-*
    run lab "muster climb --resume $climb --json"
    status 0
    [ "$(grep -l node3 "$D"/shared/home/runs/climbed-*/plan.json | wc -l)" -ge 1 ]
}

@test "C03: a host that is reached by its loopback address is refused among several" {
    lab 'rm -f ~/hostkey*; ssh-keygen -q -t ed25519 -N "" -f ~/hostkey; cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys; printf "Port 2222\nListenAddress 127.0.0.1\nHostKey /mnt/lab/hostkey\nPidFile /mnt/lab/sshd.pid\nUsePAM no\nAcceptEnv *\nStrictModes no\n" >~/sshd_config'
    sshd=/usr/sbin/sshd
    [ -x $sshd ] || sshd=/mnt/build/lab/sshd/usr/sbin/sshd
    for part in session auth; do
        [ ! -x "$O/lab/sshd/usr/lib/openssh/sshd-$part" ] ||
            echo "Sshd$(sed 's/./\U&/' <<<$part)Path /mnt/build/lab/sshd/usr/lib/openssh/sshd-$part" >>"$D/home/sshd_config"
    done
    lab "LD_LIBRARY_PATH=/mnt/build/lab/sshd/usr/lib/$(uname -m)-linux-gnu $sshd -f /mnt/lab/sshd_config -E /mnt/lab/sshd.log"
    lab 'echo "[127.0.0.1]:2222 $(cut -d" " -f1,2 ~/hostkey.pub)" >>~/.ssh/known_hosts; printf "Host mine\n HostName 127.0.0.1\n Port 2222\n" >~/.ssh/config'
    run lab 'muster launch --gpus 2 --hosts mine -- true'
    alone=$status
    run lab 'muster launch --gpus 4 --hosts node1,mine -- touch started'
    lab 'kill $(cat ~/sshd.pid)'
    status 2
    has 'host mine is reached by its loopback address 127.0.0.1'
    [ ! -e "$D/shared/started" ]
    [ "$alone" -eq 0 ]
}

@test "C03: a host whose own name leads to loopback there is named by the checks; others get its address" {
    recipe named
    node 1 sh -c 'sed "s/^10.99.0.1 /127.0.1.1 /" /etc/hosts >/mnt/host/own; mount --bind /mnt/host/own /etc/hosts'
    run lab 'muster launch --gpus 4 --hosts node1,node2 -- sh -c "echo \$RANK to \$MASTER_ADDR"'
    to=$output
    run lab 'muster check named.yaml --gpus 2 --hosts node1,node2'
    node 1 umount /etc/hosts
    [ "$(grep -c 'to 10.99.0.1$' <<<"$to")" -eq 4 ]
    status 1
    has '127.0.1.1'
    [ "$(grep -c '^fail' <<<"$output")" -eq 1 ]
    grep '^fail.*resolve.*node1' <<<"$output"
}

@test "C10: user, port, jump host and alias of ~/.ssh/config hold for a launch" {
    lab 'printf "Host far\n HostName node2\n Port 2200\n ProxyJump lab@node3:2200\nHost near\n HostName 10.99.0.1\n User lab\n" >~/.ssh/config'
    run lab 'printf "far slots=2\nnear slots=2\n" >file; muster launch --gpus 4 --hostfile file -- sh -c "echo \$RANK on \$(hostname) of \$MASTER_ADDR"'
    status 0
    has 'node2:0: 0 on node2 of 10.99.0.2'
    has 'node1:2: 2 on node1 of 10.99.0.2'
    run lab 'printf "Host n\n HostName node1\n User nobody\n Port 2200\n" >~/.ssh/config; printf "lab@n slots=1\n" >file; muster launch --gpus 1 --hostfile file -- id -un'
    status 0
    has 'node1:0: lab'
    run lab 'muster launch --gpus 1 --hosts n -- id -un'
    status 1
    has 'node n: n (node1 port 2200): user nobody is not let in'
}

@test "hosts: a key with a passphrase needs the agent, which is said, and works with it" {
    lab 'rm -f ~/enc*; ssh-keygen -q -t ed25519 -N secret -f ~/enc; printf "#!/bin/sh\necho secret\n" >~/ask; chmod 755 ~/ask'
    cp "$D/h1/home/.ssh/authorized_keys" keys
    cat "$D/home/enc.pub" >"$D/h1/home/.ssh/authorized_keys"
    lab 'printf "Host node1\n IdentityFile ~/enc\n IdentitiesOnly yes\n ForwardAgent yes\n" >~/.ssh/config'
    run lab 'muster launch --gpus 1 --hosts node1 -- true'
    locked=$output
    run lab 'eval $(ssh-agent) >/dev/null; SSH_ASKPASS_REQUIRE=force SSH_ASKPASS=~/ask ssh-add -q ~/enc </dev/null; muster launch --gpus 1 --hosts node1 -- sh -c "ls /tmp/ssh-*/* 2>&1; echo over"; rc=$?; kill $SSH_AGENT_PID; exit $rc'
    cat keys >"$D/h1/home/.ssh/authorized_keys"
    status 0
    has 'node1:0: over'
    # the agent is asked here, and never handed on, whatever ForwardAgent says
    has "node1:0: ls: cannot access '/tmp/ssh-"
    output=$locked
    has '/mnt/lab/enc: needs a passphrase, which muster does not ask for: ssh-add it'
    has 'agent: none runs'
}

@test "hosts: one host in two places of a hostfile is refused with both lines" {
    run lab 'printf "node1 slots=2\nnode2\nnode1\n" >file; muster launch --gpus 2 --hostfile file -- true'
    status 2
    has 'file:3: node1 is named twice (lines 1 and 3)'
}

@test "hosts: a line of 1 Mbit/s to one host works, and no deadline fires" {
    recipe slow
    sh "$LAB" slow "$D" 2 1mbit
    run lab 'muster launch slow.yaml --gpus 2 --hosts node1,node2 -q'
    trained=$status text=$output
    # 2.5 MB of output take 20 s there: twice the time after which a side that is silent is lost
    run lab 'muster launch --gpus 2 --hosts node1,node2 -q -- sh -c "[ \$RANK = 0 ] || head -c 2500000 /dev/zero | tr \"\\0\" x | fold -w 99"'
    sh "$LAB" slow "$D" 2 off
    echo "$text"
    [ "$trained" -eq 0 ]
    status 0
}

@test "C12: over SSH the rank that was chosen reads stdin, no other" {
    run lab 'head -c 700000 /dev/urandom >big; muster launch --gpus 4 --hosts node1,node2 --stdin 3 -- sh -c "md5sum | cut -d\" \" -f1" <big; md5sum <big | cut -d" " -f1'
    status 0
    has "node2:3: $(tail -1 <<<"$output")"
    [ "$(grep -c 'd41d8cd98f00b204e9800998ecf8427e$' <<<"$output")" -eq 3 ]
}

@test "hosts: a working folder that is another one on some host is said before ranks start" {
    lab 'mkdir -p ~/mine'
    mkdir -p "$D/h1/home/mine" "$D/h2/home/mine"
    touch -d '1 hour ago' "$D/h1/home/mine"
    run lab 'cd ~/mine && muster launch --gpus 4 --hosts node1,node2 -- true'
    status 0
    has 'warning: the working folder /mnt/lab/mine is not the one of this machine on node1, node2'
    run lab 'muster launch --gpus 4 --hosts node1,node2 -- true'
    status 0
    lacks 'working folder'
}

@test "hosts: a host with a GPU fewer than the others, or a NIC that is down, is named, nothing starts" {
    recipe alike
    sed -i 's/device: cpu, gpus_per_node: 1/device: cuda, gpus_per_node: 7/; s/global_batch_size: 4/global_batch_size: 21/' "$D/shared/alike.yaml"
    for i in 1 2 3; do
        rm -rf "$D/h$i/tree"
        sh "$SRC/tests/trees/make.sh" hgx "$D/h$i/tree" >/dev/null
    done
    gpu=$(grep -l 0x0302 "$D"/h2/tree/sys/bus/pci/devices/*/class | tail -1)
    rm "${gpu%/class}"
    for i in 1 2 3; do node $i mount --bind /mnt/host/tree/sys /sys; done
    run lab 'muster launch alike.yaml --gpus 21 --hosts node[1-3] -q'
    fewer=$output code=$status
    rm -rf "$D/h2/tree"
    sh "$SRC/tests/trees/make.sh" down "$D/h2/again" >/dev/null
    node 2 umount /sys
    node 2 mount --bind /mnt/host/again/sys /sys
    run lab 'muster launch alike.yaml --gpus 21 --hosts node[1-3] -q'
    for i in 1 2 3; do node $i umount /sys; done
    status 1
    has 'node node2 has 8 compute NICs at 400 Gbit/s, 1 of them down, node node1 has 8 compute NICs at 400 Gbit/s'
    [ ! -e "$D/shared/home/runs" ] || [ -z "$(ls "$D/shared/home/runs")" ]
    output=$fewer status=$code
    status 1
    has 'node node2 has 7 GPUs, node node1 has 8 GPUs'
    lacks node3
}

# left I: nothing of a run is left on host I (0: the login node), within 15 s
left()
{
    for _ in $(seq 150); do
        node "$1" pgrep -f 'sleep 6[0-9]|agent serve|agent ssh' >/dev/null || return 0
        sleep 0.1
    done
    node "$1" ps ax
    return 1
}

@test "C13: the launcher is killed, with its guardian or not: the hosts are empty in 15 s" {
    for who in '$(cat pid)' '$(pgrep -P $(cat pid) -x muster)' '$(cat pid) $(pgrep -P $(cat pid))'; do
        rm -f "$D/shared/up"
        lab 'muster launch --gpus 4 --hosts node1,node2 -- sh -c "trap : TERM; echo up >>up; sleep 61; sleep 62" & echo $! >pid; wait' >out 2>&1 &
        for _ in $(seq 400); do
            [ "$(grep -c up "$D/shared/up" 2>/dev/null)" = 4 ] && break
            sleep 0.05
        done
        lab "kill -KILL $who"
        for i in 1 2 0; do left $i; done
        wait
    done
}
