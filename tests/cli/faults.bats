# Faults that people and machines make: one clear line, the right status.
load lib

# shard: a byte shard of 20 kB in $T/text.bin; recipe: a tiny one over it in $T/r.yaml
recipe()
{
    seq 1 4000 >text
    muster data pack -o text.bin text >/dev/null
    cat >r.yaml <<END
name: faults
model: {preset: tiny}
training: {seq_len: 32, global_batch_size: 4, steps: 2}
data: {path: $T/text.bin}
checkpoint: {folder: $T/ck, interval: 1}
END
}

@test "a resume that cannot: the rank that knows why is named, with its status" {
    recipe
    run muster launch r.yaml --gpus 2 --no-check -q --resume nothing
    status 3
    has 'rank 0 on '
    has 'nothing: no complete checkpoint here'
    lacks 'its message says why'
}

@test "a shard of a checkpoint is damaged: its file is in the summary" {
    recipe
    run muster launch r.yaml --gpus 2 --no-check -q
    status 0
    printf x | dd of=ck/step-00000002/shard-00001-of-00002.safetensors \
        bs=1 seek=5000 conv=notrunc 2>/dev/null
    run muster launch r.yaml --gpus 2 --no-check -q --resume ck --set training.steps=4
    status 2
    has 'shard-00001-of-00002.safetensors'
    lacks 'its message says why'
}
