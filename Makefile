# kvtwin: a discrete-event twin of a disaggregated LLM serving fleet
#
#   make            install what is missing, build build/kvtwin
#   make demo       and run the main job        make check   and test everything
#   make help       list the targets            V=1          show whole commands
#   MODE=release|debug|sanitize|tsan|coverage|clang  each in build/MODE/, side by side
#
# Read from top to bottom: settings, flags, lists (sim/ in the order to read it), rules, targets.

MODE     ?= release
WERROR   ?=
V        ?=
CFLAGS   ?=
CPPFLAGS ?=
LDFLAGS  ?=
OPENMP   ?= -fopenmp
DESTDIR  ?=
TIME     ?= 20
PREFIX   ?= /usr/local
bindir   ?= $(PREFIX)/bin
mandir   ?= $(PREFIX)/share/man
datadir  ?= $(PREFIX)/share
libdir   ?= $(PREFIX)/lib
includedir ?= $(PREFIX)/include
VERSION  := 0.1.0
B        := build/$(MODE)
ifeq ($(origin CC),default)
CC       := $(if $(filter clang tsan,$(MODE)),clang,gcc)
endif
ifeq ($(MAKELEVEL)$(filter -j% clean,$(MAKEFLAGS) $(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

# ---- flags ----
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Wvla -Wcast-qual \
        -Wstrict-prototypes -Wmissing-prototypes -Wdouble-promotion -Wformat=2 -Wswitch-enum \
        -Wwrite-strings -Wpointer-arith
WARN_GCC := -Wlogical-op -Wduplicated-branches -Wcast-align=strict

WARN_CXX := -Wall -Wextra -Wshadow -Wundef -Wvla -Wcast-qual -Wformat=2 -Wwrite-strings -Wpointer-arith

MODE_release  := -O2 -g
MODE_clang    := -O2 -g
MODE_debug    := -O0 -g3 -DKVT_SLOW_CHECKS
MODE_sanitize := -O1 -g3 -DKVT_SLOW_CHECKS -fno-omit-frame-pointer -fsanitize=address,undefined \
                 -fno-sanitize-recover=all
MODE_tsan     := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
MODE_coverage := -O0 -g --coverage -fprofile-update=atomic
# The branches that are counted are those of sim/, runtime/ and cli/: kernels run at full speed.
build/coverage/kernels/%.o: MODE_coverage := -O2 -g

# pkg-config is asked once, and only when the first recipe needs it: on a bare machine it is
# installed by then. Debian's HDF5 is called hdf5-serial.
PACKAGES   := gsl yaml-0.1 jansson zlib cunit
pkg         = $(shell pkg-config $(1) $(PACKAGES) \
                $$(pkg-config --exists hdf5-serial && echo hdf5-serial || echo hdf5))
PKG_CFLAGS  = $(eval PKG_CFLAGS := $$(call pkg,--cflags-only-I))$(PKG_CFLAGS)
PKG_LIBS    = $(eval PKG_LIBS := $$(call pkg,--libs))$(PKG_LIBS)

# The event loop crosses these files at every event: gcc optimises them as one when it links, for 10
# to 20 % fewer ns per event. The rest of the program would only make linking slow.
HOT := sim/des/%.o sim/serve/%.o sim/cost/costs.o sim/metrics/%.o
LTO := $(if $(filter release,$(MODE)$(findstring clang,$(CC))),-flto=auto -ffat-lto-objects)
ifneq ($(LTO),)
AR  := gcc-ar
endif

# One file of kernels/cpu/ is for one instruction set, which its name says; the right one is chosen when
# the program runs. On a processor that is no x86 there is the portable one only (X86= does the same).
X86          ?= $(filter x86_64,$(shell uname -m))
ISA_avx2     := -mavx2 -mfma -mf16c
ISA_avx512   := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vbmi -mavx512bf16 -mavx512vnni -mfma \
                -mprefer-vector-width=512
ISA_amx      := $(ISA_avx512) -mamx-tile -mamx-bf16
# Without optimisation gcc's intrinsics are macros, whose casts it then warns about.
isa           = $(if $(filter %_avx2 %_avx512 %_amx,$(1)),-Wno-sign-conversion) $(foreach i,avx2 avx512 amx,$(if $(filter %_$(i),$(1)),$(ISA_$(i))))

# The CUDA kernels are compiled where nvcc is found and go into the release build; CUDA=no leaves
# them out. runtime/ is told by KVT_CUDA; CUDA's own runtime is linked statically, so the
# program starts without a driver too. sm_90a is for an H100 or H200, later chips take the PTX.
CUDA       ?= $(if $(filter release,$(MODE)),yes,no)
NVCC       ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))
CUDA_HOME   = $(patsubst %/bin/nvcc,%,$(NVCC))
CUDA_HERE  := $(if $(filter no,$(CUDA)),,$(NVCC))
CUDA_FLAGS := -std=c++17 -O3 -lineinfo -I. -Xcompiler -Wall,-Wextra -Xptxas -v \
              -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_90,code=compute_90
CUDA_LIBS   = -L$(CUDA_HOME)/lib64 -lcudart_static -lrt -ldl -lpthread -Wl,-Bstatic -lstdc++ -Wl,-Bdynamic
CUDA_CPP    = $(if $(CUDA_HERE),$(if $(filter runtime/% kernels/cuda/%,$(1)),$(if $(wildcard runtime/device_cuda.c),-DKVT_CUDA=1) -isystem $(CUDA_HOME)/include))
EMULATE    := g++ -std=c++17 -O1 -g $(WARN_CXX) $(WERROR) -ffp-contract=off -fsanitize=address,undefined \
              -fno-sanitize-recover=all -I.
EMULATE_C   = gcc -std=c11 -O1 -g $(WERROR) $(ALL_CPPFLAGS) -DKVT_CUDA=1 -ffp-contract=off -fsanitize=address,undefined \
              -fno-sanitize-recover=all

ALL_CPPFLAGS = -I. -D_POSIX_C_SOURCE=200809L $(if $(X86),-DKVT_X86) -DKVT_VERSION='"$(VERSION)"' $(PKG_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS   = -std=c11 $(WARN) $(if $(findstring clang,$(CC)),,$(WARN_GCC)) $(WERROR) -ffp-contract=off $(OPENMP) $(MODE_$(MODE)) $(CFLAGS)
ALL_LDFLAGS  = $(LTO) $(OPENMP) $(filter -fsanitize=% --coverage,$(MODE_$(MODE))) $(LDFLAGS)
# Debian's shared HDF5 pulls in 40 libraries that we never call (curl, Kerberos, LDAP): 6 ms at every
# start. The static one does not; where it is missing the shared one serves.
HDF5_A       = $(firstword $(wildcard $(patsubst -L%,%/libhdf5.a,$(filter -L%,$(PKG_LIBS)))))
LIBS         = $(if $(HDF5_A),$(filter-out -lhdf5,$(PKG_LIBS)) $(HDF5_A) -lsz -lz -ldl,$(PKG_LIBS)) \
               -lcsv -lm $(if $(CUDA_HERE),$(CUDA_LIBS))

# The one part that is linked with MPI is a file that the program loads when mpirun or srun started it;
# it is built where mpicc is. MPI=no leaves it out.
MPI         ?= yes
MPICC       := $(if $(filter no,$(MPI)),,$(shell command -v mpicc 2>/dev/null))

# ---- lists ----
SIM_DIRS  := base config model cost serve fault des trace metrics output report plan
SIM_SRC   := $(foreach d,$(SIM_DIRS),$(wildcard sim/$(d)/*.c))
REAL_DIRS := kernels kernels/cpu runtime
OTHER_ISA := $(if $(X86),,$(foreach i,avx2 avx512 amx,$(wildcard kernels/cpu/*_$(i).[ch])))
REAL_SRC  := $(filter-out $(OTHER_ISA),$(foreach d,$(REAL_DIRS),$(wildcard $(d)/*.c)))
CUDA_SRC  := $(wildcard kernels/cuda/*.cu kernels/cuda/*.c)
CUDA_OBJ  := $(patsubst %.c,$(B)/%.o,$(patsubst %.cu,$(B)/%.cu.o,$(CUDA_SRC)))
CLI_SRC   := $(wildcard cli/*.c)
BENCH_SRC := $(wildcard tests/bench_*.c)
FUZZERS   := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_OBJ  := $(patsubst %.c,build/fuzz/%.o,$(SIM_SRC) cli/table.c cli/server_row.c cli/server_load.c tests/fuzz/place.c)
ANALYSED  := $(filter-out runtime/device_cuda.c,$(SIM_SRC) $(REAL_SRC) kernels/cuda/gemm.c $(CLI_SRC) \
             $(if $(MPICC),sim/plan/mpi/ranks_mpi.c) $(wildcard tests/*.c tests/fuzz/*.c tests/anomalies/*.c))
TEST_SRC  := $(filter-out $(BENCH_SRC) tests/digests.c tests/swarm.c,$(wildcard tests/*.c))
HEADERS   := $(filter-out $(OTHER_ISA),$(foreach d,$(SIM_DIRS:%=sim/%) $(REAL_DIRS) cli tests,$(wildcard $(d)/*.h)))
LIB_OBJ   := $(patsubst %.c,$(B)/%.o,$(SIM_SRC) $(REAL_SRC) $(filter-out cli/main.c,$(CLI_SRC)))
ifneq ($(CUDA_HERE),)
LIB_OBJ   += $(CUDA_OBJ)
endif
TEST_OBJ  := $(TEST_SRC:%.c=$(B)/%.o)
BENCHES   := $(BENCH_SRC:%.c=$(B)/%)
ALONE     := $(HEADERS:%=$(B)/%.ok)
CUDA_CHECK := $(filter-out tests/cuda/emula%,$(wildcard tests/cuda/*.cc tests/cuda/*.cu))
ANOMALIES := build/anomalies/failing.so $(B)/kvtwin-shared
EMULATED  := $(patsubst %,build/emulate/%.o,$(notdir $(filter-out tests/cuda/on_device.cc,\
             $(wildcard kernels/cuda/*.cu tests/cuda/*.cc tests/cuda/*.cu))))
REFERENCE := $(patsubst %,build/emulate/%.o,$(wildcard kernels/*.c) kernels/cuda/gemm.c sim/base/status.c sim/base/assert.c)
ENGINE    := $(patsubst %,build/emulate/%.o,$(wildcard runtime/*.c) tests/cuda/engine.c) \
             $(filter-out build/emulate/main.% build/emulate/emulation.% $(patsubst tests/cuda/%,build/emulate/%.o,$(filter-out %/emulated.cc,$(wildcard tests/cuda/*.c[cu]))),$(EMULATED))
DEPS       = $(FUZZ_OBJ:.o=.d) $(REPLAY:.o=.d) $(B)/tests/swarm.d $(EMULATED:.o=.d) $(REFERENCE:.o=.d) $(ENGINE:.o=.d) $(LIB_OBJ:.o=.d) $(TEST_OBJ:.o=.d) $(BENCHES:=.d) $(ALONE:.ok=.d) $(B)/cli/main.d $(ANALYSED:%.c=build/analyse/%.d)

Q   := $(if $(filter 1,$(V)),,@)
say  = @printf '  %-5s %s\n' $(1) '$@'

# What was built the other way, with CUDA or without, is built again.
ifneq ($(wildcard $(B)/cuda.$(if $(CUDA_HERE),no,yes)),)
$(shell rm -f $(B)/cuda.yes $(B)/cuda.no $(B)/libkvtwin.a $(B)/kvtwin $(B)/check $(B)/runtime/*.o)
endif

# ---- targets ----
all: $(B)/kvtwin $(if $(MPICC),$(B)/kvtwin-mpi.so) ## build the program: build/kvtwin
	@ln -sfn $(MODE)/kvtwin build/kvtwin

bootstrap: ## install missing Debian packages (a quick no-op when all is there)
	@scripts/bootstrap.sh build

bootstrap-check: bootstrap
	@scripts/bootstrap.sh check

demo: all ## the main job on shipped inputs: a capacity plan, then a simulated fleet
	@scripts/demo.sh build/kvtwin

test: $(B)/kvtwin $(B)/check ## the quick tests, under a minute
	$(Q)$(B)/check
	$(Q)tests/cli.sh $(B)/kvtwin
	$(Q)tests/traces.sh $(B)/kvtwin
	$(Q)tests/fixed.sh $(B)/kvtwin

check: bootstrap-check ## all tests; of the release build also twins, mutants, CUDA, notebooks, documents
	@$(MAKE) --no-print-directory check-here

# By a make of its own: on a bare machine mpicc and the like are there only now.
ifeq ($(MODE),release)
RELEASE := all twins mutants cuda cuda-emulated $(B)/swarm $(B)/replay $(ANOMALIES)
endif
check-here: $(B)/kvtwin $(B)/check alone $(RELEASE)
	$(Q)tests/suites.sh $(B)/check
	$(Q)tests/cli.sh $(B)/kvtwin
	$(Q)tests/traces.sh $(B)/kvtwin
	$(Q)tests/fixed.sh $(B)/kvtwin
	$(Q)tests/report.sh $(B)/kvtwin
	$(Q)tests/man.sh $(B)/kvtwin cli/kvtwin.1
	$(Q)tests/completion.sh $(B)/kvtwin
	$(Q)tests/tutorial.sh $(B)/kvtwin docs/tutorial.md
	$(Q)tests/install.sh $(MODE)
	$(Q)scripts/lint.sh
	$(if $(RELEASE),@$(MAKE) --no-print-directory check-release)

check-release: check-validate # of what check-here built
	@scripts/bootstrap.sh notebooks && scripts/notebooks.sh
	$(Q)tests/twins.sh $(TWINS)
	$(Q)$(B)/swarm $(COMMIT) 300
	$(Q)for world in $(FOUND); do $(B)/swarm $$world 1 >/dev/null || exit 1; done
	$(Q)$(B)/replay
	$(Q)tests/anomalies/run.py build/anomalies $(B)/kvtwin $(B)/kvtwin-shared
	$(Q)WALKS=10 tests/spin/check.sh $(B)/check 2
	@scripts/readme.sh README.md | diff README.md - || { echo 'README.md shows old output; run make docs' >&2; exit 1; }

check-report: all ## a report in headless Chromium; pages and screenshots in build/report
	$(Q)tests/report.sh build/kvtwin

TWINS := build/release/kvtwin build/debug/kvtwin build/clang/kvtwin
twins: bootstrap-check
	@$(MAKE) --no-print-directory MODE=debug build/debug/kvtwin build/debug/digests
	@$(MAKE) --no-print-directory MODE=clang build/clang/kvtwin build/clang/check build/clang/digests

mutants: twins ## bugs planted in the jump logic: random worlds must tell each
	@$(MAKE) --no-print-directory MODE=clang mutants-here

# In a mode without link-time optimisation: 32 links are most of the work.
mutants-here: $(B)/swarm $(B)/check
	$(Q)tests/mutants.sh $(B) '$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS)' '$(LIBS)' '$(SCARCE)'

# Load that comes at once and short outputs: half a minute for both.
check-validate: all ## both fleets of validate-cpu*.yaml simulated and run; times judge nothing
	$(Q)for fleet in validate-cpu validate-cpu-mla; do \
	    $(B)/kvtwin validate configs/examples/$$fleet.yaml --short -q --format json --set 'workload.open.rate=30 req/s' \
	        --set 'workload.open.output={uniform: {min: 40, max: 160}}' >build/$$fleet.json || exit 1; \
	done

cuda: $(if $(CUDA_HERE),all $(CUDA_OBJ) build/cuda-check) ## compile the CUDA kernels; registers, spills and instructions as meant
	$(Q)scripts/cuda.sh '$(CUDA_HERE)' $(filter %.cu.o,$(CUDA_OBJ))

device-check: ## on a machine with a GPU: test, measure, calibrate, validate; report in build/device-check
	@scripts/device_check.sh

cuda-emulated: build/emulate/check build/emulate/engine $(if $(CUDA_HERE),build/cuda-check) ## the CUDA kernels on the host, under sanitizers, with mutants
	$(Q)tests/cuda.sh build/emulate '$(EMULATE_C)' '$(EMULATE) $(LTO) $(OPENMP)' '$(ENGINE) build/emulate/reference.a $(B)/libkvtwin.a $(LIBS)'

# The seed of `make check` is the commit, so that every commit looks at other worlds.
COMMIT := 0x$(or $(shell git rev-parse --short=8 HEAD 2>/dev/null),1)
FOUND  := 713 5000035 5000102 # worlds that once went wrong
N      ?= 10000
WORLDS ?= 60
SEED   ?= 1
swarm: $(B)/swarm ## N random worlds from SEED on: every driver, every invariant, faults
	$(Q)$(B)/swarm $(SEED) $(N)

spin: $(B)/check ## the hand-off as a model: checked by spin, planted bugs found, its walks through the core
	@scripts/bootstrap.sh spin
	$(Q)tests/spin/check.sh $(B)/check

MOMENTS ?= 100
anomalies: all $(ANOMALIES) ## every command broken on purpose: each call fails, full disks, kills at MOMENTS moments, clocks that jump
	$(Q)tests/anomalies/mutants.sh $(B) '$(CC) $(ALL_CPPFLAGS) $(call CUDA_CPP,runtime/) $(ALL_CFLAGS) -fno-lto' '$(PKG_LIBS) -lcsv -lm $(if $(CUDA_HERE),$(CUDA_LIBS))'
	$(Q)tests/anomalies/run.py --full --moments $(MOMENTS) build/anomalies $(B)/kvtwin $(B)/kvtwin-shared

bench: all $(BENCHES) ## speed: machine, commit, command, figures
	@scripts/bench.sh build/kvtwin $(BENCHES)

perf-gate: all ## instructions of six fixed runs: none may grow by more than 3 % (RENEW=renew: count anew)
	$(Q)tests/perf/gate.sh build/kvtwin $(RENEW)

sanitize: ## the quick tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory MODE=sanitize test

tsan: ## data races of every command and suite with threads, under ThreadSanitizer and Archer
	@scripts/bootstrap.sh tsan
	@$(MAKE) --no-print-directory MODE=tsan build/tsan/kvtwin build/tsan/check
	$(Q)tests/tsan.sh build/tsan/kvtwin build/tsan/check

valgrind: $(B)/kvtwin $(B)/check ## memcheck over the short suites and short runs of the program
	@scripts/bootstrap.sh valgrind
	$(Q)tests/valgrind.sh $(B)/kvtwin $(B)/check

fuzz: $(FUZZERS) ## each parser and small whole runs against random bytes, TIME seconds each
	@scripts/fuzz.sh $(TIME) $(FUZZERS)

# Of each file one stamp: what was not changed is not looked at again. gcc's analyser loses memory that
# is kept behind a pointer (malloc-leak: the sanitizer build and clang look for leaks), values that a loop sets
# (uninitialized). A test may crash where memory ran out (null). What clang-tidy is asked stands in .clang-tidy.
ANALYSE_CPP = $(if $(filter sim/base/status.c,$(1)),,-DKVT_ANALYSE) -Wno-unused-value $(ALL_CPPFLAGS) \
              $(if $(filter %_mpi.c,$(1)),$(filter -I%,$(shell $(MPICC) -show)))
analyse: ## clang-tidy, cppcheck, gcc -fanalyzer and shellcheck over what was changed since the last time
	@scripts/bootstrap.sh analyse
	@$(MAKE) --no-print-directory WERROR=-Werror $(ANALYSED:%.c=build/analyse/%.ok)
	$(Q)shellcheck $$(git ls-files '*.sh' .ci/run)

# Everything that is quick and the slow tests too, less the suites that only run kernels; and each call
# that may fail does, once on each path that leads to it.
COVER_SUITES = $(filter-out attention gemm_kernels int4_kernels kv_write elementwise tag_check,\
               $(shell sed -n 's/^ *X(\([a-z_0-9]*\)).*/\1/p' tests/suites.h))
coverage: ## branches of sim/ and runtime/ that the tests take; sources in build/coverage/index.html (minutes)
	@scripts/bootstrap.sh coverage
	@$(MAKE) --no-print-directory MODE=coverage coverage-here
	@scripts/coverage.sh build/coverage

coverage-here: $(B)/kvtwin $(B)/check $(B)/replay $(B)/swarm $(ANOMALIES) $(if $(MPICC),$(B)/kvtwin-mpi.so)
	$(Q)find $(B) -name '*.gcda' -delete
	$(Q)tests/suites.sh $(B)/check $(COVER_SUITES)
	$(Q)for script in cli traces report completion; do tests/$$script.sh $(B)/kvtwin || exit 1; done
	$(Q)tests/tutorial.sh $(B)/kvtwin docs/tutorial.md
	$(Q)$(B)/replay
	$(Q)$(B)/swarm 1 20
	$(Q)tests/anomalies/run.py --paths --only calls,resume,memory,disk build/anomalies $(B)/kvtwin $(B)/kvtwin-shared

lint: ## include table, sizes, names, format
	@scripts/lint.sh

alone: $(ALONE) # every header compiles by itself

docs: all ## write the reference page of the configuration, and the outputs in the README
	build/kvtwin config reference > build/config-reference.md
	mv build/config-reference.md docs/config-reference.md
	scripts/readme.sh README.md > build/README.md
	mv build/README.md README.md

soak: all ## a million requests with every guard on: nothing may fire, nothing may be lost
	build/kvtwin inject configs/examples/soak.yaml

fault-study: all ## run the fault campaigns again and write docs/fault-study.md (minutes)
	@scripts/bootstrap.sh notebooks
	/usr/bin/python3 scripts/fault-study.py build/kvtwin docs/fault-study.md

fault-real: all ## strikes on real pages beside simulated ones, and docs/fault-real.md (minutes)
	python3 scripts/fault-real.py build/kvtwin docs/fault-real.md

.PHONY: real-swarm
real-swarm: all ## WORLDS random small fleets from SEED on, struck in simulation and on real pages: both say the same
	$(Q)tests/worlds_real.py build/kvtwin $(SEED) $(WORLDS)

notebooks: all ## execute the notebooks from a clean start; pages in build/notebooks/
	@scripts/bootstrap.sh notebooks
	$(Q)scripts/notebooks.sh

# Programs that embed the simulator link what it links.
define PKG_CONFIG
prefix=$(PREFIX)
libdir=$(subst $(PREFIX),$${prefix},$(libdir))
includedir=$(subst $(PREFIX),$${prefix},$(includedir))

Name: kvtwin
Description: discrete-event twin of a disaggregated LLM serving fleet
Version: $(VERSION)
Cflags: -I$${includedir}/kvtwin $(PKG_CFLAGS)
Libs: -L$${libdir} -lkvtwin $(OPENMP) $(filter-out -lcunit,$(LIBS))
endef

install: $(B)/kvtwin ## copy program, library, headers, man page, completions, configs and traces below PREFIX
	install -D -m 755 $(B)/kvtwin $(DESTDIR)$(bindir)/kvtwin
	install -D -m 644 $(B)/libkvtwin.a $(DESTDIR)$(libdir)/libkvtwin.a
	find sim -name '*.h' -exec install -D -m 644 '{}' '$(DESTDIR)$(includedir)/kvtwin/{}' ';'
	$(file >$(B)/kvtwin.pc,$(PKG_CONFIG))
	install -D -m 644 $(B)/kvtwin.pc $(DESTDIR)$(libdir)/pkgconfig/kvtwin.pc
	if [ -f $(B)/kvtwin-mpi.so ]; then install -D -m 755 $(B)/kvtwin-mpi.so $(DESTDIR)$(bindir)/kvtwin-mpi.so; fi
	install -D -m 644 cli/kvtwin.1 $(DESTDIR)$(mandir)/man1/kvtwin.1
	install -D -m 644 cli/kvtwin.bash $(DESTDIR)$(datadir)/bash-completion/completions/kvtwin
	install -D -m 644 cli/_kvtwin $(DESTDIR)$(datadir)/zsh/site-functions/_kvtwin
	install -D -m 644 README.md $(DESTDIR)$(datadir)/doc/kvtwin/README.md
	install -D -m 644 LICENSE $(DESTDIR)$(datadir)/doc/kvtwin/LICENSE
	install -m 644 docs/*.md docs/*.svg docs/embed.c CHANGELOG.md $(DESTDIR)$(datadir)/doc/kvtwin
	find /dev/null $(wildcard configs traces) -type f -exec install -D -m 644 '{}' '$(DESTDIR)$(datadir)/kvtwin/{}' ';'

uninstall: ## remove what install copied
	rm -f $(DESTDIR)$(bindir)/kvtwin $(DESTDIR)$(bindir)/kvtwin-mpi.so $(DESTDIR)$(mandir)/man1/kvtwin.1 \
	      $(DESTDIR)$(libdir)/libkvtwin.a $(DESTDIR)$(libdir)/pkgconfig/kvtwin.pc \
	      $(DESTDIR)$(datadir)/bash-completion/completions/kvtwin \
	      $(DESTDIR)$(datadir)/zsh/site-functions/_kvtwin
	rm -rf $(DESTDIR)$(datadir)/kvtwin $(DESTDIR)$(datadir)/doc/kvtwin $(DESTDIR)$(includedir)/kvtwin

clean: ## remove what was built
	rm -rf build

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 18

# ---- rules ----
$(B)/kvtwin: $(B)/cli/main.o $(B)/libkvtwin.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# Each allocation of the program may be made to fail in a test (tests/scarce.h), and each wait for a
# device (tests/devices.h).
SCARCE := $(patsubst %,-Xlinker --wrap=%,malloc calloc realloc aligned_alloc strdup open_memstream mmap munmap free \
            kvt_device_open)
$(B)/check: $(TEST_OBJ) $(B)/libkvtwin.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(SCARCE) -o $@ $^ $(LIBS)

$(B)/digests $(B)/swarm: $(B)/%: $(B)/tests/%.o $(B)/tests/world.o $(B)/libkvtwin.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# The program with the shared HDF5, whose calls can be made to fail, and what makes calls fail.
$(B)/kvtwin-shared: $(B)/cli/main.o $(B)/libkvtwin.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(filter-out -flto% -ffat%,$(ALL_LDFLAGS)) -fno-lto -o $@ $^ $(PKG_LIBS) -lcsv -lm $(if $(CUDA_HERE),$(CUDA_LIBS))

build/anomalies/failing.so: tests/anomalies/failing.c tests/anomalies/failing_hdf5.c tests/anomalies/failing.h Makefile
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)gcc -std=c11 -O1 -g -Wall -Wextra $(WERROR) -I. $(PKG_CFLAGS) -shared -fPIC -o $@ $(filter %.c,$^) -ldl -lpthread

$(B)/tests/bench_%: $(B)/tests/bench_%.o $(B)/libkvtwin.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# MPI's own headers do not pass our warnings.
$(B)/kvtwin-mpi.so: sim/plan/mpi/ranks_mpi.c sim/plan/ranks.h
	@mkdir -p $(@D)
	$(call say,MPICC)
	$(Q)$(MPICC) -I. -std=c11 -O2 -g -Wall -Wextra $(WERROR) -fPIC -shared -o $@ $<

$(B)/libkvtwin.a: $(LIB_OBJ)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^
	@touch $(B)/cuda.$(if $(CUDA_HERE),yes,no)

$(B)/%.cu.o: %.cu Makefile | bootstrap
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) $(CUDA_FLAGS) $(if $(WERROR),-Werror all-warnings) -MMD -MP -MF $(@:.o=.d) -c -o $@ $< >$(@:.o=.log) 2>&1 || \
	    { cat $(@:.o=.log) >&2; rm -f $@; exit 1; }

# The device's tests: the sources of the emulated ones, on a GPU.
build/cuda-check: $(CUDA_CHECK:%=$(B)/%.o) $(B)/libkvtwin.a
	$(call say,LINK)
	$(Q)g++ $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(B)/tests/cuda/%.cc.o: tests/cuda/%.cc Makefile | bootstrap-check
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)g++ -std=c++17 -O1 -g $(WARN_CXX) $(WERROR) -ffp-contract=off -I. -MMD -MP -c -o $@ $<

build/emulate/check: $(EMULATED) build/emulate/reference.a
	$(call say,LINK)
	$(Q)$(EMULATE) -o $@ $^ -lm

# Engines over the emulated device. What lies above the runtime is taken as it was built.
build/emulate/engine: $(ENGINE) build/emulate/reference.a $(B)/libkvtwin.a
	$(call say,LINK)
	$(Q)$(EMULATE) $(LTO) $(OPENMP) -o $@ $^ $(LIBS)

build/emulate/reference.a: $(REFERENCE)
	@rm -f $@
	$(Q)ar rcs $@ $^

build/emulate/%.c.o: %.c Makefile | bootstrap-check
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(EMULATE_C) -MMD -MP -c -o $@ $<

vpath %.cu kernels/cuda tests/cuda
vpath %.cc tests/cuda
build/emulate/%.cu.o: %.cu Makefile | bootstrap-check
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(EMULATE) -MMD -MP -x c++ -c -o $@ $<

build/emulate/%.cc.o: %.cc Makefile | bootstrap-check
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(EMULATE) -MMD -MP -c -o $@ $<

$(B)/%.o: %.c Makefile | bootstrap
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(if $(filter $(HOT),$*.o),$(LTO)) $(call isa,$*) $(call CUDA_CPP,$*) -MMD -MP -c -o $@ $<

FUZZ := clang $(OPENMP) -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
build/fuzz/fuzz_%: tests/fuzz/fuzz_%.c build/fuzz/lib.a
	$(call say,FUZZ)
	$(Q)$(FUZZ) $(ALL_CPPFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)

build/fuzz/lib.a: $(FUZZ_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

build/fuzz/%.o: %.c Makefile | bootstrap-check
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(FUZZ) $(ALL_CPPFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

# The same targets without a fuzzer, for what the fuzzers found: tests/fuzz/corpus/.
REPLAY := $(patsubst %.c,$(B)/%.o,$(wildcard tests/fuzz/*.c))
$(B)/tests/fuzz/fuzz_%.o: CPPFLAGS += -DLLVMFuzzerTestOneInput=$(notdir $*)
$(B)/replay: $(REPLAY) $(B)/libkvtwin.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(B)/%.h.ok: %.h Makefile | bootstrap
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(call isa,$*) -Wno-pedantic -fsyntax-only -MMD -MP -MT $@ -MF $(@:.ok=.d) -x c $<
	@touch $@

build/analyse/%.ok: %.c .clang-tidy tests/.clang-tidy Makefile
	@mkdir -p $(@D)
	$(call say,LOOK)
	$(Q)gcc -std=c11 -O1 $(OPENMP) $(call isa,$*) $(call ANALYSE_CPP,$<) $(WERROR) -Wnull-dereference -fanalyzer \
	    -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value \
	    $(if $(filter tests/%,$<),-Wno-analyzer-null-dereference -Wno-analyzer-possible-null-dereference -Wno-analyzer-possible-null-argument) -MMD -MP -MT $@ -MF $(@:.ok=.d) -c -o /dev/null $<
	$(Q)clang-tidy --quiet $< -- -std=c11 $(OPENMP) $(call isa,$*) $(call ANALYSE_CPP,$<) 2>/dev/null
	$(Q)cppcheck --quiet --enable=warning,performance,portability --std=c11 --inline-suppr --error-exitcode=1 -I. $(filter -D%,$(ALL_CPPFLAGS)) $<
	@touch $@

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all alone analyse anomalies bench bootstrap bootstrap-check check check-here check-release \
        check-report check-validate clean coverage coverage-here cuda cuda-emulated demo device-check docs \
        fault-real fault-study fuzz help install lint mutants mutants-here notebooks perf-gate sanitize soak \
        spin swarm test tsan twins uninstall valgrind
-include $(wildcard $(DEPS))
