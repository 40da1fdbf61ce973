bats_require_minimum_version 1.5.0
load lib

F01=$BATS_TEST_DIRNAME/../cases/f01_shards

@test "data pack makes a shard of bytes that info and verify read" {
    printf 'hello\n' >a.txt
    printf 'world' >b.txt
    run muster data pack -o t.bin a.txt b.txt
    status 0
    has 't.bin: 13 tokens from 2 files'
    run muster data info t.bin
    status 0
    has 'uint16'
    run muster data verify --vocab 257 t.bin
    status 0
    has '256'
    run muster data verify --vocab 256 t.bin
    status 2
    has 't.bin: token 256 at index 6 is outside the vocabulary of 256'
}

@test "data pack reads standard input and replaces the output at once" {
    printf abc | muster data pack -o t.bin -
    run muster data info t.bin
    has ' 4 '
    run muster data pack -o t.bin absent.txt
    status 3
    has 'absent.txt'
    run muster data info t.bin # the old one
    status 0
    has ' 4 '
    [ "$(ls)" = t.bin ]
}

@test "data pack --ids names the bad word with its line (F04)" {
    printf '1 2\n3 65535\n' >ids
    run muster data pack --ids -o t.bin ids
    status 0
    printf '1 2\n3 70000\n' >ids
    run muster data pack --ids -o u.bin ids
    status 2
    has 'ids:2: token id 70000 is over 65535'
    has 'use --token-bytes 4'
    [ ! -e u.bin ]
    run muster data pack --ids --vocab 151936 --token-bytes 2 -o u.bin ids
    status 2
    has 'a vocabulary of 151936 does not fit 2-byte tokens'
    run muster data pack --ids --vocab 151936 --eod 9 -o u.bin ids
    status 0
    run muster data info u.bin
    has 'uint32'
    echo 'x7' >>ids
    run muster data pack --ids --token-bytes 4 -o u.bin ids
    status 2
    has "ids:3: 'x7' is not a token id"
}

@test "data info visits all files, one line a bad one (F01)" {
    run --separate-stderr muster data info "$F01"
    status 2
    [ "$(printf '%s\n' "$stderr" | wc -l)" -eq 11 ]
    [ "$(printf '%s\n' "$output" | wc -l)" -eq 7 ]
    has '16 files, 11 bad, 3129 tokens'
    output=$stderr
    has 'big_endian.bin: the header is big-endian'
    has 'eval_magic.bin: an evaluation file'
}

@test "data verify finds the first token outside the vocabulary (F01)" {
    run muster data verify --vocab 50257 "$F01/oov_50257.bin" "$F01/good_u16.bin"
    status 2
    has 'oov_50257.bin: token 50257 at index 500'
    has 'good_u16.bin'
    has '2 files, 1 bad, 1000 tokens'
}

@test "data --json has one object, bad files in it" {
    run --separate-stderr muster data verify --json --vocab 50257 "$F01/oov_50257.bin" "$F01/good_u16.bin"
    status 2
    printf '%s' "$output" | python3 -c '
import json, sys
o = json.load(sys.stdin)
assert list(o)[0] == "schema" and o["schema"] == "muster/data-verify/1"
bad, good = o["files"]
assert not bad["ok"] and "index 500" in bad["error"]
assert good["ok"] and good["tokens"] == 1000 and good["format"] == "llm.c"
assert o["bad"] == 1 and o["tokens"] == 1000'
    printf x >x.txt
    run muster data pack --json -o t.bin x.txt
    printf '%s' "$output" | python3 -c '
import json, sys
assert json.load(sys.stdin)["tokens"] == 2'
}

@test "a Megatron pair opens by either name and counts once" {
    python3 - <<'PY'
import struct
lengths, marks = (3, 4), (0, 1, 2)
open("m.idx", "wb").write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2, 3)
    + struct.pack("<2i", *lengths) + struct.pack("<2q", 0, 6) + struct.pack("<3q", *marks))
open("m.bin", "wb").write(struct.pack("<7H", *range(7)))
PY
    for name in m.idx m.bin .; do
        run muster data info "$name"
        status 0
        has megatron
        has ' 7 '
    done
    [ "$(printf '%s\n' "$output" | wc -l)" -eq 2 ]
    printf x >>m.bin
    run muster data info m.bin
    status 2
    has 'm.bin: 15 bytes, but its index describes 14 (1 extra)'
}

@test "data explains wrong usage" {
    run muster data
    status 2
    run muster data verfy x
    status 2
    has "did you mean 'verify'"
    run muster data info
    status 2
    has 'no file is named'
    run muster data info absent.bin
    status 3
    has 'absent.bin'
    run muster data info 'none*.bin'
    status 3
    has 'no file matches'
    run muster data pack a.txt
    status 2
    has '-o OUT is missing'
    run muster data pack --token-bytes 3 -o x a.txt
    status 2
    has '2 or 4'
    run muster data pack --vocab 5x -o x a.txt
    status 2
    has "--vocab: '5x' is not"
    run muster data pack --vocab 5 -o x a.txt
    status 2
    has 'go with --ids'
    mkdir folder
    run muster data pack -o x folder
    status 2
    has 'is a folder'
    mkfifo pipe.bin
    run muster data info pipe.bin
    status 2
    has 'pipe'
    run muster data --help
    status 0
    has verify
}

@test "the demo's text is real, large enough and packs" {
    run sh "$SRC/tests/demo_data.sh" "$T/data"
    status 0
    run muster data verify --vocab 257 "$T/data/text.bin"
    status 0
    [ "$(stat -c %s "$T/data/text.bin")" -ge 1000000 ]
    [ "$(stat -c %s "$T/data/text.bin")" -le 9000000 ]
}
