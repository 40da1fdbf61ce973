bats_require_minimum_version 1.5.0
load lib

# A checkpoint of one layer in two parts, from trainer/ckpt.h's words alone.
make_ckpt() # DIR STEP
{
    python3 - "$1" "$2" <<'PY'
import json, pathlib, struct, sys
dir, step = pathlib.Path(sys.argv[1]), int(sys.argv[2])
dir.mkdir(parents=True)
def fnv(data):
    h = 0xcbf29ce484222325
    for at in range(0, len(data), 4):
        h = ((h ^ int.from_bytes(data[at:at + 4], "little")) * 0x100000001b3) % 2**64
    return h
units = {"embed": 300, "layer": 500, "head": 200}
for part in range(2):
    pieces, sums = {}, []
    for unit, name in (("embed", "embed"), ("layer", "layers.0"), ("head", "head")):
        for k, kind in enumerate(("master", "exp_avg", "exp_avg_sq")):
            n = units[unit] // 2
            data = struct.pack(f"<{n}f", *(part + k + i / 7 for i in range(n)))
            pieces[f"{name}.{kind}"] = data
            sums.append(fnv(data))
    blob, header, at = b"", {}, 0
    for name, data in pieces.items():
        header[name] = {"dtype": "F32", "shape": [len(data) // 4], "data_offsets": [at, at + len(data)]}
        blob += data
        at += len(data)
    data = struct.pack(f"<{len(sums)}Q", *sums)
    header["checksums"] = {"dtype": "I64", "shape": [len(sums)], "data_offsets": [at, at + len(data)]}
    blob += data
    text = json.dumps(header).encode()
    (dir / f"shard-{part:05}-of-00002.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + blob)
index = json.dumps({"schema": "muster/checkpoint/1", "step": step, "tokens": step * 64, "world": 4, "shard": 2,
    "seed": 7, "seq_len": 8, "global_batch_size": 8, "model": {"layers": 1},
    "units": {u: {"count": n - 10, "padded": n} for u, n in units.items()}}).encode()
(dir / "index.json").write_bytes(index)
(dir / "complete").write_text(f"{fnv(index):016x}\n")
PY
}

@test "ckpt info lists the checkpoints of a folder" {
    make_ckpt c/step-00000010 10
    make_ckpt c/step-00000020 20
    run muster ckpt info c
    status 0
    has 'c/step-00000010'
    has ' 970 ' # 290 + 490 + 190 parameters
    has '1280'  # 20 steps of 64 tokens
    run muster ckpt info --json c/step-00000020/
    status 0
    printf '%s' "$output" | python3 -c '
import json, sys
o = json.load(sys.stdin)
assert o["schema"] == "muster/ckpt-info/1" and o["bad"] == 0
c = o["checkpoints"][0]
assert (c["step"], c["shard"], c["world"], c["seed"], c["parameters"]) == (20, 2, 4, 7, 970)'
}

@test "ckpt verify reads every shard and names what is damaged" {
    make_ckpt c/step-00000010 10
    make_ckpt c/step-00000020 20
    run muster ckpt verify c
    status 0
    has 'every checksum matches'
    f=c/step-00000010/shard-00001-of-00002.safetensors
    cp $f good
    printf '\377' | dd of=$f bs=1 seek=$(($(stat -c %s $f) - 1000)) conv=notrunc 2>/dev/null
    run muster ckpt verify c
    status 2
    has "$f: "
    has 'is damaged: the checksum of block 0 does not match'
    has 'step-00000020: every checksum matches' # the others are read all the same
    head -c 5000 good >$f
    run muster ckpt verify c
    status 2
    has "$f: "
    has 'cut short'
    rm $f
    run muster ckpt verify c/step-00000010
    status 3
    has "$f: No such file"
}

@test "ckpt refuses an incomplete checkpoint and a damaged index by name" {
    make_ckpt c/step-00000010 10
    sed -i 's/"tokens": 640/"tokens": 641/' c/step-00000010/index.json
    run muster ckpt info c
    status 2
    has 'c/step-00000010/index.json: damaged'
    rm c/step-00000010/complete
    run muster ckpt info c
    status 2
    has 'c/step-00000010: not complete'
    mkdir empty
    run muster ckpt info empty
    status 3
    has 'no checkpoint'
    run muster ckpt verify absent
    status 3
    has 'absent'
    run muster ckpt
    status 2
    run muster ckpt vrify c
    status 2
    has "did you mean 'verify'"
    run muster ckpt info
    status 2
    has 'no folder is named'
}
