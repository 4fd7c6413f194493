#!/bin/sh
# Bugs planted in the jump logic, one at a time: random worlds must tell each from the real thing.
#
#   mutants.sh BUILD COMPILE LIBS SUITES    BUILD has tests/*.o and libkvtwin.a; SUITES: how suites are linked
#
# A mutant is one sed edit of one file. It is compiled, linked before the library, and run on the
# worlds of the quick suite: macro-steps against exact steps, with and without a log; or, where both
# would do the same, by the suite that it names. A mutant that survives, or an edit that no longer
# applies, is a failure.
set -u
build=$1 compile=$2 libs=$3 wrap=$4
worlds=${WORLDS:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
killed=0 failed=0
suites=$(find "$build/tests" -maxdepth 1 -name '*.o' ! -name 'bench_*' ! -name digests.o ! -name swarm.o)

mutant() { # mutant FILE NAME SED [SUITE]
    echo "#line 1 \"$1\"" | cat - "$1" >"$work/real.c"
    sed "$3" "$work/real.c" >"$work/mutant.c"
    if cmp -s "$work/real.c" "$work/mutant.c"; then
        echo "tests/mutants.sh: \"$2\" does not apply to $1 any more" >&2
        failed=$((failed + 1))
        return
    fi
    tests="$build/tests/swarm.o $build/tests/world.o" run="--steps --first 1 $worlds"
    [ $# -gt 3 ] && tests="$wrap $suites" run=$4
    # shellcheck disable=SC2086
    if ! $compile -w -c -o "$work/mutant.o" "$work/mutant.c" ||
        ! $compile -o "$work/test" $tests "$work/mutant.o" "$build/libkvtwin.a" $libs; then
        echo "tests/mutants.sh: \"$2\" does not compile" >&2
        failed=$((failed + 1))
        return
    fi
    # shellcheck disable=SC2086
    timeout 20 "$work/test" $run >"$work/out" 2>&1
    code=$?
    why=$(grep -m 1 -e '^world' -e assert -e ' after [0-9 ]*$' "$work/out" | sed -e 's/^kvtwin: //' -e 's/.*[.]   *//')
    case $code in
    0)
        echo "tests/mutants.sh: survived: $1: $2" >&2
        failed=$((failed + 1))
        return
        ;;
    124) why="runs for ever" ;;
    esac
    killed=$((killed + 1))
    printf '%-18s %-52s %s\n' "${1#sim/}" "$2" "$why"
}

core=sim/serve/core.c
mutant $core "a jump goes past the next finish" 's/limit - 1 < regular ? limit - 1 : regular/limit < regular ? limit : regular/'
mutant $core "a jump goes on when a window is full" 's/int64_t more = limit - 1 < regular.*/int64_t more = limit - 1;/'
mutant $core "named pages: a jump takes pages without names" 's/replica->pages.named ? 0 : replica->pages.free/replica->pages.free/'
mutant $core "a jump takes more pages than there are" 's/replica->pages.named ? 0 : replica->pages.free/replica->pages.named ? 0 : replica->pages.total/'
mutant $core "a jump passes by those who wait" 's/if (queued \&\& !replica->blocked)/if (false)/'
mutant $core "overlap: the step ahead may have other members" 's/step->decodes != batch->members.count ||//;s/ahead->decodes != step->decodes ||//;s/ahead->context != step->context + step->decodes ||//;s/ahead->joiner_count > 0 ||//'
mutant $core "overlap: the step ahead may grow otherwise" 's/ahead->growing != step->growing ||//;s/step->growing != batch->growing ||//'
mutant $core "overlap: the step ahead may have chunks" 's/ahead->chunk_count > 0 ||//'
mutant $core "the step ahead is not moved along" 's/ahead->context += steps \* ahead->decodes;//'
mutant $core "the window of the step ahead is not moved along" 's/ahead->windowed += steps \* ahead->growing;//'
mutant $core "sglang's ratio does not decay in a jump" '/^void kvt_core_extend/,/^}/s/scheduler_of(replica)->repeat(replica, steps);/;/'
mutant $core "a settled run forgets its commits" '/^void kvt_core_settle/,/^}/s/kvt_batch_commit(&replica->batch, steps);/kvt_batch_commit(\&replica->batch, steps - 1);/'
mutant $core "a settled run joins its joiners twice" 's/^    step->joiner_count = 0;//'

batch=sim/serve/batch.c
mutant $batch "pages of a jump: one phase too many" 's/low = high - rest + 1/low = high - rest/'
mutant $batch "pages of a jump: whole rounds are left out" 's/int64_t pages = rounds \* batch->members.count;/int64_t pages = 0;/'
mutant $batch "steps within: the first rounds cost nothing" '/^int64_t kvt_batch_steps_within/,/^}/s/pages -= rounds \* batch->members.count;//'
mutant $batch "steps within: phases run the other way" '/^int64_t kvt_batch_steps_within/,/^}/s/phase = phase == 0 ? batch->page_tokens - 1 : phase - 1;/phase = phase + 1 == batch->page_tokens ? 0 : phase + 1;/'
mutant $batch "a phase forgets the steps planned so far" 's/(context - batch->planned) % batch->page_tokens/context % batch->page_tokens/'
mutant $batch "a finish is seen a step late" 's/batch->finish.entries\[0\].step - batch->committed;/batch->finish.entries[0].step - batch->committed + 1;/'
mutant $batch "a window is outgrown a step late" 's/batch->outgrow.entries\[0\].step - batch->planned;/batch->outgrow.entries[0].step - batch->planned + 1;/;s/kvt_assert(k <= kvt_batch_regular_steps(batch));//'

engine=sim/des/engine.c
mutant $engine "a tie is always seen at the step that ends now" 's/engine->position >= slot ? 1 : 0/0/'
mutant $engine "a tie is never seen at the step that ends now" 's/engine->position >= slot ? 1 : 0/1/'
mutant $engine "a wake does not cut a run" '/^static void wake/,/^}/s/if (lane->run.steps == 1)/if (lane->run.steps >= 1)/'
mutant $engine "a cut run keeps its old end" '/^static void wake/,/^}/s/lane->end = run->start + run_time(costs, run, lane->run.steps);//'
mutant $engine "a run is settled one step too far" '/^static void settle/,/^}/s/engine->now - run->start) -$/engine->now - run->start + 1) -/'
mutant $engine "a settled run keeps its windows" 's/run->windowed += ended \* run->growing;//'
mutant $engine "a run is extended by a step too many" 's/kvt_core_extend(core, replica, run->steps - 1);/kvt_core_extend(core, replica, run->steps);/'

observe=sim/des/observe.c
mutant $observe "gaps: a segment goes on for a step too many" 's/terms = reach < left ? reach : left/terms = reach < left ? reach + 1 : left/'
mutant $observe "gaps: the window does not grow in a run" 's/windowed += terms \* run->growing;//'
mutant $observe "gaps: the second step has the first one's context" 's/int64_t context = run->context + run->decodes;/int64_t context = run->context;/'
mutant $observe "gaps: the next one begins at the first step's end" 's/gaps->last = end;/gaps->last = first_end;/'
mutant $observe "gaps: a newcomer counts from its second step on" 's/^    if (run->steps > 1 \&\& gaps->measured > 0)/    if (run->steps > 1 \&\& gaps->measured > step->joiner_count)/'

mutant sim/serve/cancel.c "a cancel out of a batch leaves the blocked blocked" '/^static void leave_batch/,/^}/s/replica->blocked = false;//' tiny_fleets

if [ "$failed" -gt 0 ]; then
    echo "tests/mutants.sh: $failed of $((failed + killed)) mutants are alive" >&2
    exit 1
fi
echo "tests/mutants.sh: all $killed mutants killed"
