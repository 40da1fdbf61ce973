load lib

@test "doctor: this machine can train, and every absence has a cure" {
    run muster doctor
    status 0
    has 'ok   muster-train'
    has 'ready: training on this machine works'
    muster doctor --json >d.json
    jq -e '.schema == "muster/doctor/1" and .ready == true' d.json
    jq -e '[.items[] | select(.required) | .found] | all' d.json
    jq -e '.items | length > 10 and all(.[]; (.adds | length > 3) and (.cure | length > 3))' d.json
    jq -e '.items[] | select(.name == "PMIx") | .version | test("[0-9]+[.][0-9]+")' d.json
}

@test "doctor: without the trainer it is not ready, status 3" {
    mkdir bin && cp "$O/bin/muster" bin/
    run bin/muster doctor
    status 3
    has 'MISS muster-train'
    has 'not ready'
    run bin/muster doctor --json
    status 3
    [ "$(echo "$output" | jq .ready)" = false ]
}

@test "doctor: the driver's version comes from libnvidia-ml.so.1" {
    LD_LIBRARY_PATH="$O/tests/fake" run muster doctor
    status 0
    has 'ok   NVIDIA       driver 580.159.03, 2 GPUs'
    FAKE_NVML=mismatch LD_LIBRARY_PATH="$O/tests/fake" run muster doctor
    status 0
    has 'Driver/library version mismatch'
}

@test "doctor: a program that hangs or is silent does not hold it up" {
    mkdir path
    printf '#!/bin/sh\nsleep 60\n' >path/scontrol
    printf '#!/bin/sh\nexit 1\n' >path/srun
    printf '#!/bin/sh\necho slurm 25.05.1\n' >path/ssh
    chmod +x path/*
    start=$(date +%s)
    PATH="$T/path:$PATH" run muster doctor
    status 0
    has "path/scontrol does not work here: it says nothing"
    has "path/srun does not work here: it says nothing"
    has 'ok   ssh          slurm 25.05.1'
    [ $(($(date +%s) - start)) -lt 20 ]
}

@test "doctor: a CUDA module that does not load says why" {
    echo no library >broken.so
    MUSTER_CUDA_MODULE="$T/broken.so" run muster doctor
    status 0
    has '-    CUDA module'
    has broken.so
}
