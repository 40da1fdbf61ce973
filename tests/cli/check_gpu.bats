# muster check of devices: what NVML says (tests/fake/nvml.c, read by CPU ranks for want of
# a GPU), and what ranks compute.
load lib

recipe()
{
    cat >r.yaml <<-EOF
	model: {preset: tiny}
	training: {seq_len: 16, local_batch_size: 1, steps: 1, dtype: float32}
	parallelism: {data_parallel_shard_degree: -1}
	data: {path: none/*.bin}
	cluster: {backend: local, device: cpu}
	checks: {level: quick}
	EOF
}

# check_with FACTS [ARG]... - two ranks beside the stand-in's two GPUs, whose numbers are
# FACTS; the verdicts into out.json
check_with()
{
    local facts=$1
    shift
    MUSTER_PROBE_NVML=1 LD_LIBRARY_PATH="$O/tests/fake" FAKE_NVML_SET=$facts \
        muster check r.yaml --gpus 2 --json "$@" >out.json
}

# verdict NAME OBJECT: "result: reason" of that one
verdict()
{
    python3 -c 'import json,sys
for v in json.load(open("out.json"))["verdicts"]:
    if v["name"] == sys.argv[1] and v["object"].endswith(sys.argv[2]): print(v["result"] + ": " + v["reason"])' "$@"
}

@test "check: healthy GPUs pass, each of a rank on its own; no NVML for CPU ranks" {
    recipe
    check_with '' --level standard || [ $? -eq 1 ] # bandwidth on a busy machine
    for name in gpu_ecc_mode gpu_ecc_errors gpu_remap gpu_mig gpu_fabric gpu_nvlinks gpu_power_cap gpu_persistence \
        gpu_memory_used gpu_processes gpu_throttle gpu_pcie_gen gpu_clock gpu_temperature gpu_nvlink_errors \
        gpu_nvlink_crc gpu_pcie_replays gpu_ecc_new gpu_xid; do
        [[ $(verdict "$name" 'gpu 0') = pass:* ]]
        [[ $(verdict "$name" 'gpu 1') = pass:* ]]
    done
    [[ $(verdict gpu_count '') = pass:* ]]
    [[ $(verdict gpu_pcie_width 'gpu 0') = unmeasured:* ]] # as on the machine it was recorded on
    muster check r.yaml --gpus 2 --json >out.json
    [ -z "$(verdict gpu_count '')" ]
}

@test "check: what is wrong with a GPU is said of that GPU" {
    recipe
    rc=0
    check_with '1.remap_pending=1 0.ecc_uncorrected=2 0.xid=79 1.used=9999999999 1.power_limit=500000 0.ecc=0' || rc=$?
    [ "$rc" = 1 ]
    [[ $(verdict gpu_remap 'gpu 1') = 'fail: '*'0000:00:07.0, or reboot'* ]]
    [[ $(verdict gpu_remap 'gpu 0') = pass:* ]]
    [[ $(verdict gpu_ecc_errors 'gpu 0') = 'fail: 2 uncorrectable'* ]]
    [[ $(verdict gpu_ecc_mode 'gpu 0') = 'pass: ECC is off'* ]]
    [[ $(verdict gpu_xid 'gpu 0') = 'fail: Xid 79 while the check ran'* ]]
    [[ $(verdict gpu_xid 'gpu 1') = pass:* ]]
    [[ $(verdict gpu_memory_used 'gpu 1') = 'fail: is 9.3 GiB'* ]]
    [[ $(verdict gpu_power_cap 'gpu 1') = 'pass: is 500 W, needs 700 W'* ]]
    check_with '1.processes=1' || true
    [[ $(verdict gpu_processes 'gpu 1') = 'fail: others compute on it: '*'(3.0 GiB)'* ]]
    check_with '1.lost=1' || true
    [[ $(verdict gpu_count '') = 'fail: '*'GPU 1: GPU is lost'* ]]
}

@test "check: what only a load shows, and that events replay to the same verdicts" {
    recipe
    rc=0
    check_with '0.throttle=0x48 1.pcie_gen=3 1.clock=1200' --level standard || rc=$?
    [ "$rc" = 1 ]
    [[ $(verdict gpu_throttle 'gpu 0') = 'fail: hardware slowdown + hardware thermal'* ]]
    [[ $(verdict gpu_pcie_gen 'gpu 1') = 'fail: Gen3 under load, Gen5 is possible'* ]]
    [[ $(verdict gpu_clock 'gpu 1') = 'pass: '*'of the median'* ]]
    rc=0
    muster check --replay "$MUSTER_HOME"/runs/*/events.jsonl --json >again.json || rc=$?
    [ "$rc" = 1 ]
    cmp out.json again.json
}

# check_fault FAULT RANKS [ARG]... - status 1 is wanted; the verdicts into out.json
check_fault()
{
    local rc=0
    muster check r.yaml --set "debug.check_fault=$1" --gpus "$2" "${@:3}" --json >out.json || rc=$?
    [ "$rc" = 1 ]
}

@test "check: a rank that computes wrong sums is named by three that agree" {
    recipe
    check_fault 'wrong 2' 4
    [[ $(verdict gemm_bits 'rank 2') = 'fail: '*'3 of 4 of its kind agree on another result'* ]]
    [[ $(verdict gemm_bits 'rank 3') = 'pass: '*'as on 3 of 4'* ]]
    check_fault 'wrong 1' 2
    [[ $(verdict gemm_bits 'rank 0') = 'undecided: '*'none can be named'* ]]
    [[ $(verdict gemm_bits 'rank 1') = 'undecided: '*'none can be named'* ]]
    check_fault 'flaky 1' 2
    [[ $(verdict gemm_bits 'rank 1') = 'fail: '*'contradicts itself'* ]]
    [[ $(verdict gemm_bits 'rank 0') = pass:* ]]
    run muster check r.yaml --gpus 2 --set 'debug.check_fault=slow'
    status 2
    has "debug.check_fault: 'slow' is not"
}

@test "check: a slow rank is named beside the others" {
    recipe
    # Beside other programs the sound ranks differ, too, and nobody can be named: once more.  On a
    # machine that is never quiet the slow one stays undecided; it never passes (test_gpu has
    # the rule by numbers).
    for _ in 1 2 3 4 5 6; do
        check_fault 'slow 3' 4 --level standard || true
        slow=$(verdict gemm 'rank 3') sound=$(verdict gemm 'rank 0')
        [[ $slow = fail:* && $sound = pass:* ]] && break
    done
    echo "$slow; sound: $sound"
    [[ $slow = *'of the median of 4'* && $slow != pass:* ]]
    [[ $sound != fail:* ]]
}

@test "check: a rank whose device hangs is given up and named" {
    recipe
    MUSTER_CHECK_STEP_MS=1500 check_fault 'stuck 1' 2
    [[ $(verdict probe '') = 'fail: '*'rank 1: 3 products to compare did not end within 1.5 s'* ]]
    [[ $(verdict memlock '') = pass:* ]]
}

@test "check: --replay of what nvidia-smi printed (A10, A12, D06-D08)" {
    run muster check --replay "$SRC/tests/cases/d06_throttle.tsv"
    status 1
    has '4 failed, 1 could not be measured'
    run muster check --replay "$SRC/tests/cases/d07_pcie.csv"
    status 1
    has 'x8 of x16'
    has '2 failed, 3 could not be measured'
    run muster check --replay "$SRC/tests/cases/d08_remap.txt"
    status 1
    has 'have the GPU replaced (RMA)'
    has '3 passed, 2 failed'
    run muster check --replay "$SRC/tests/cases/a10_fabric_inprogress.txt"
    status 1
    has '0000:18:00.0: fabric state '
    run muster check --replay "$SRC/tests/cases/a10_fabric_none.txt"
    status 0
    run muster check --replay "$SRC/tests/cases/a12_mig_mode.csv"
    status 1
    has '2 passed, 2 failed'
}
