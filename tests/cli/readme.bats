# README.md is in step with the programs.
load lib

@test "the README lists the commands as muster help does" {
    muster help | sed -n 's/^  \([a-z]\)/    \1/p' >listed
    [ -s listed ]
    while IFS= read -r line; do
        grep -qxF -- "$line" "$SRC/README.md" || { echo "not in README.md: $line"; return 1; }
    done <listed
}

@test "the README's recipe keys are what muster plan --help-recipe prints" {
    muster plan --help-recipe --markdown >keys
    [ "$(wc -l <keys)" -gt 40 ]
    tail -n "$(wc -l <keys)" "$SRC/README.md" | diff keys -
}

@test "every command has help that names its usage" {
    for c in $(muster help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        run muster "$c" --help
        status 0
        [[ $output == [Uu]sage* ]] || { echo "$c: $output"; return 1; }
    done
}

@test "an unknown command is refused with a suggestion" {
    run muster plam
    status 2
    has "did you mean 'plan'?"
}

@test "a wrong option is refused with a suggestion, status 2" {
    run muster plan --gpsu 2
    status 2
    has "did you mean '--gpus'?"
}
