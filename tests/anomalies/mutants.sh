#!/bin/sh
# Bugs planted where outputs, memory, signals and clocks are handled: each part of run.py must tell one.
#
#   mutants.sh BUILD COMPILE LIBS    BUILD has cli/main.o and libkvtwin.a
#
# A mutant is one sed edit of one file, compiled, linked before the library, and broken by one part of
# run.py in its short form. One that survives, or an edit that no longer applies, is a failure.
set -u
build=$1 compile=$2 libs=$3
work=$(mktemp -d)
mutant=build/anomalies/mutant # beside failing.so: the program looks for its data from where it lies
trap 'rm -rf "$work" "$mutant"' EXIT
killed=0 failed=0

mutant() { # mutant FILE NAME SED OPTIONS_OF_RUN: run.py must fail
    sed "$3" "$1" >"$work/mutant.c"
    main=$build/cli/main.o
    [ "$1" = cli/main.c ] && main=
    if cmp -s "$1" "$work/mutant.c"; then
        echo "tests/anomalies/mutants.sh: \"$2\" does not apply to $1 any more" >&2
        failed=$((failed + 1))
        return
    fi
    # shellcheck disable=SC2086
    if ! $compile -w -c -o "$work/mutant.o" "$work/mutant.c" ||
        ! $compile -o "$mutant" $main "$work/mutant.o" "$build/libkvtwin.a" $libs; then
        echo "tests/anomalies/mutants.sh: \"$2\" does not compile" >&2
        failed=$((failed + 1))
        return
    fi
    # shellcheck disable=SC2086
    if tests/anomalies/run.py --seed 1 $4 build/anomalies "$mutant" "$mutant" >"$work/out" 2>&1; then
        echo "tests/anomalies/mutants.sh: survived: $1: $2" >&2
        failed=$((failed + 1))
        return
    fi
    killed=$((killed + 1))
    printf '%-22s %-44s %s\n' "$1" "$2" "$(sed -n 's/^tests.anomalies.run.py: \(.*\)/\1/p' "$work/out" | head -n 1 | cut -c1-120)"
}

file=sim/base/file.c
mutant $file "a full disk is not seen when a file is closed" 's/whole = fclose(output->stream) == 0 \&\& whole/fclose(output->stream), whole = true/' "--only disk --cases trace-import"
mutant $file "an fsync that fails is not seen" 's/fsync(output->lock) != 0/(fsync(output->lock), false)/' "--only calls --cases trace-import"
mutant $file "a rename that fails is not seen" 's/rename(output->temp_path, output->path) != 0/(rename(output->temp_path, output->path), false)/' "--only calls --cases trace-import"
mutant $file "memory for a name is not checked" 's/output->path == NULL || output->temp_path == NULL/false/' "--only memory --cases trace-import --full"
mutant $file "an output is written under its final name" 's/"%s.tmp.kvtwin"/"%s"/' "--only kill --cases simulate --moments 20"
mutant $file "an output is not locked" 's/flock(output->lock, LOCK_EX | LOCK_NB) != 0/false/' "--only race --cases simulate --moments 20"
mutant cli/main.c "a signal is taken for the end" 's/kvt_stop_ask(&kvt_cli_interrupted);/_exit(0);/' "--only signal --cases simulate --moments 10"
mutant sim/output/journal.c "memory for a record is not checked" '/^static bool next_block/,/^}/s/if (grown == NULL)/if (false)/' "--full --only resume --cases inject"
mutant runtime/device_cpu.c "a clock goes back" 's/if (seconds < last)/if (false)/' "--only clock --cases none --full"
echo "tests/anomalies/mutants.sh: $killed bugs found, $failed missed"
[ $failed -eq 0 ]
