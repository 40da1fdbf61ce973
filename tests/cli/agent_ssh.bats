# muster launch over SSH: hosts as namespaces of this machine (tests/lab/ssh.sh).
load lib
setup_file() { ssh_lab 4; }
teardown_file() { ssh_lab_end; }

setup()
{
    T=$(mktemp -d)
    cd "$T" || exit 1
    [ -z "$NO_LAB" ] || skip "$NO_LAB"
    lab 'rm -rf home; [ -e ~/known ] || cp ~/.ssh/known_hosts ~/known; cp ~/known ~/.ssh/known_hosts'
}

lab() { ssh_lab_run 90 "$1"; }

# What is left of a run on host I: ranks and agents.
left()
{
    for i in $(seq 150); do
        node "$1" pgrep -f 'sleep 5[0-9]|agent serve' >/dev/null || return 0
        sleep 0.1
    done
    node "$1" ps ax
    return 1
}

@test "ssh: ranks on two hosts, with the addresses of their network" {
    run lab 'muster launch --gpus 4 --hosts node1,node2 -- sh -c "echo \$RANK \$(hostname) \$MASTER_ADDR [\$OMPI_MCA_btl_tcp_if_include] [\$NCCL_SOCKET_IFNAME]"'
    status 0
    has 'node1:0: 0 node1 10.99.0.1 [] []'
    has 'node2:3: 3 node2 10.99.0.1 [] []'
}

@test "C04: bridges of containers are kept from NCCL, gloo and Open MPI, with the reason" {
    bridge()
    {
        node "$1" ip link add "$2" type veth peer name peer0
        node "$1" ip addr add 172.17.0.1/16 dev "$2"
        node "$1" ip link set "$2" up
        node "$1" ip link set peer0 up
    }
    bridge 1 docker0
    bridge 2 virbr0
    run lab 'echo "echo \$(hostname) [\$OMPI_MCA_btl_tcp_if_include] [\$NCCL_SOCKET_IFNAME]" >say; muster launch -v --gpus 4 --hosts node1,node2 -- sh say'
    node 1 ip link del docker0
    status 0
    has 'node1:0: node1 [10.99.0.0/24] []'
    has 'node2:3: node2 [10.99.0.0/24] [=eth0]'
    has 'OMPI_MCA_btl_tcp_if_include is set to 10.99.0.0/24 on node1 (and to its like on 1 other node): Open MPI would also use docker0'
    has 'NCCL_SOCKET_IFNAME is set to =eth0 on node2: NCCL would also take virbr0'
    run lab 'NCCL_SOCKET_IFNAME=virbr0 muster launch --dry-run --gpus 4 --hosts node1,node2 -- sh say; grep -h network home/runs/*/run.json; grep -h "NCCL would" home/runs/*/run.json'
    node 2 ip link del virbr0
    status 0
    has '# NCCL_SOCKET_IFNAME=virbr0 is yours and stays'
    has ' OMPI_MCA_btl_tcp_if_include=10.99.0.0/24 '
    lacks ' NCCL_SOCKET_IFNAME=='
    has 'NCCL_SOCKET_IFNAME is set to =eth0 on node2: NCCL would also take virbr0'
}

@test "B13: the order of the hosts is the order of the ranks" {
    run lab 'printf "node3\nnode1 slots=2 # the other\n" >hosts; muster launch --gpus 4 --hostfile hosts -- sh -c "echo \$RANK \$MASTER_ADDR"'
    status 0
    has 'node3:0: 0 10.99.0.3'
    has 'node1:2: 2 10.99.0.3'
    run lab 'printf "node3\nnode1 slots=1\n" >hosts; muster launch --gpus 4 --hostfile hosts -- true'
    status 2
    has 'host node1 has 1 slot, and 2 ranks are placed there'
}

@test "C02: MASTER_ADDR of the user stays" {
    run lab 'MASTER_ADDR=gn08-ib muster launch --gpus 4 --hosts node1,node2 -- sh -c "echo to \$MASTER_ADDR"'
    status 0
    [ "$(grep -c ': to gn08-ib$' <<<"$output")" -eq 4 ]
}

@test "ssh: fences and an Open MPI program over four hosts" {
    run lab 'muster launch --gpus 8 --hosts node[1-4] -- pmix_fence 4'
    status 0
    [ "$(grep -c ': right$' <<<"$output")" -eq 8 ]
    run lab 'muster launch --gpus 8 --hosts node[1-4] -- mpi_hello'
    status 0
    [ "$(grep -c 'of 8: ring ok, sum 28' <<<"$output")" -eq 8 ]
}

@test "ssh: four hosts train to the losses of one machine, bit for bit" {
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
    run lab 'muster launch tiny.yaml --gpus 4 -q'
    status 0
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
    [ "$(grep -o '"node":[^,]*' "$D"/shared/home/runs/tiny*/plan.json | tr -d '" ' | sort | uniq -c | grep -c ' 1 node:node[1-4]')" -eq 4 ]
}

@test "ssh: an unknown or changed key is refused before anything starts" {
    run lab 'sed -i "/^node2/d" ~/.ssh/known_hosts; muster launch --gpus 4 --hosts node1,node2 -- touch started'
    [ "$status" -ne 0 ]
    has 'node node2'
    [ ! -e "$D/shared/started" ]
    [ ! -e "$D/shared/home/runs" ] || [ -z "$(ls "$D/shared/home/runs")" ]
    run lab 'sed -i "s|^node1,\([^ ]*\) .*|node1,\1 $(sed -n "s/^node3[^ ]* //p" ~/known)|" ~/.ssh/known_hosts; muster launch --gpus 4 --hosts node1,node2 -- touch started'
    [ "$status" -ne 0 ]
    has 'node node1'
    [ ! -e "$D/shared/started" ]
}

@test "--spares: a host that does not answer is left out, with the reason" {
    run lab 'sed -i "/^node1/d" ~/.ssh/known_hosts; muster launch --gpus 4 --hosts node[1-3] --spares 1 -- sh -c "echo \$RANK on \$(hostname)"'
    status 0
    has 'left out, a spare takes its place: node node1: '
    has 'node2:0: 0 on node2'
    has 'node3:3: 3 on node3'
    run lab 'sed -i "/^node[12]/d" ~/.ssh/known_hosts; muster launch --gpus 2 --hosts node[1-3] --spares 1 -- touch started'
    [ "$status" -ne 0 ]
    has 'node node1: '
    has 'node node2: '
}

@test "ssh: one machine under two names is refused, and so is one name on two machines" {
    run lab 'muster launch --gpus 4 --hosts node1,10.99.0.1 -- true'
    status 2
    has 'hosts node1 and 10.99.0.1 are one machine (node1)'
    node 2 hostname node1
    run lab 'muster launch --gpus 4 --hosts node1,node2 -- true'
    node 2 hostname node2
    status 2
    has 'hosts node1 and node2 both call themselves node1'
}

@test "ssh: all hosts that cannot be had are named at once" {
    run lab 'muster launch --gpus 4 --hosts node1,node8,node9 -- true'
    status 3
    has 'node node8: '
    has 'node node9: '
}

@test "ssh: a folder that is not shared is said, and what to do" {
    run lab 'mkdir -p ~/own && cd ~/own && muster launch --gpus 4 --hosts node1,node2 -- true'
    status 3
    has 'ranks start where muster was started'
}

# killed HOST SCRIPT: run ranks on node1 and node2, run SCRIPT as root of HOST when all are
# up; the launch must end in 15 s and leave nothing
killed()
{
    rm -f "$D/shared/up"
    (
        for i in $(seq 200); do
            [ "$(grep -c up "$D/shared/up" 2>/dev/null)" = 4 ] && break
            sleep 0.05
        done
        date +%s >"$T/at"
        node "$1" sh -c "$2"
    ) &
    run lab 'muster launch --gpus 4 --grace 2s --hosts node1,node2 -- sh -c "trap : TERM; echo up >>up; sleep 51; sleep 52"'
    wait
    [ $(($(date +%s) - $(cat at))) -le 15 ]
    left 1
    left 2
    left 0
}

@test "ssh: an agent is killed: its host is named, everything ends" {
    killed 2 'kill -KILL $(pgrep -nf "[m]uster agent serve")'
    status 4
    has 'node node2 is lost'
}

@test "ssh: an agent and its guardian are killed at once: its host is named, nothing is left" {
    killed 2 'kill -KILL $(pgrep -f "[m]uster agent serve")'
    status 4
    has 'node node2 is lost'
}

@test "ssh: an agent is stopped: its host is named, its guardian ends what it has" {
    killed 2 'kill -STOP $(pgrep -nf "[m]uster agent serve")'
    status 4
    has 'node node2 is lost: nothing came from it for 6 s'
}

@test "ssh: the sshd session is killed: its host is named, everything ends" {
    killed 2 'kill -KILL $(ps -o ppid= -p $(pgrep -of "[m]uster agent serve"))'
    status 4
    has 'node node2 is lost'
}

@test "ssh: a host's network is cut: its host is named, everything ends there too" {
    killed 2 'ip link set eth0 down'
    node 2 sh -c 'ip link set eth0 up; ip addr add 10.99.0.2/24 dev eth0 2>/dev/null; true'
    status 4
    has 'node node2 is lost'
}

@test "ssh: a host that hangs at the start is named within its deadline" {
    printf '#!/bin/sh\nexec sleep 50\n' >"$D/shared/hang"
    chmod 755 "$D/shared/hang"
    node 1 mount --bind /mnt/shared/hang /mnt/build/bin/muster # the agent says nothing
    node 2 sh -c 'kill -STOP $(cat /mnt/host/sshd.pid)'        # its sshd says nothing
    start=$(date +%s)
    run lab 'muster launch --gpus 8 --hosts node[1-4] --start-timeout 4s -- touch started'
    took=$(($(date +%s) - start))
    node 1 umount /mnt/build/bin/muster
    node 2 sh -c 'kill -CONT $(cat /mnt/host/sshd.pid)'
    node 1 pkill -f 'sleep 50'
    status 5
    has 'node node1: no answer within 4 s'
    has 'node node2: no answer within 4 s'
    lacks node3
    [ $took -le 15 ]
    [ ! -e "$D/shared/started" ]
}

@test "ssh: a wedged rank is found from outside and named with its last step" {
    cat >"$D/shared/sim.yaml" <<-END
	name: sim
	model: {preset: qwen3-30b-a3b}
	training: {seq_len: 4096, local_batch_size: 2, steps: 1000, log_interval: 1}
	parallelism: {data_parallel_shard_degree: 4, data_parallel_replicate_degree: -1}
	activation_checkpoint: {mode: full}
	data: {path: none/*.bin}
	cluster: {device: sim, gpus_per_node: 2}
	END
    run lab 'MUSTER_SIM=time=0.01,wedge=3@5 muster launch sim.yaml --gpus 4 --hosts node1,node2 --silence-timeout 3s --grace 1s'
    status 5
    has 'no sign of life for 3 s: rank 3 on node2 (last step 4)'
}

@test "ssh: random kills leave nothing (a sample of tests/soak/agent_kill.sh)" {
    run env O="$O" NOTE="$T/note" KINDS='rank agent session drop launcher both' \
        bash "$SRC/tests/soak/agent_kill.sh" 1 "$RANDOM"
    echo "$output"
    status 0
}

@test "ssh: the listening sshd is killed: the run goes on, and says so" {
    rm -f "$D/shared/up"
    (
        for i in $(seq 200); do [ -e "$D/shared/up" ] && break; sleep 0.05; done
        node 2 sh -c 'kill -KILL $(cat /mnt/host/sshd.pid)'
    ) &
    run lab 'muster launch --gpus 4 --hosts node1,node2 -- sh -c "echo >>up; sleep 6; echo done"; cat home/runs/*/events.jsonl'
    wait
    status 0
    [ "$(grep -c ': done$' <<<"$output")" -eq 4 ]
    [ "$(grep -c 'warning: node node2: its sshd has ended and lets nobody in any more' <<<"$output")" -eq 1 ]
    has '"event":"warning"'
    run lab 'timeout 80 muster launch --gpus 4 --hosts node1,node2 -- true'
    [ "$status" -ne 0 ]
    has 'node node2: '
    lacks 'node node1'
}
