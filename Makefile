# kvtwin: a discrete-event twin of a disaggregated LLM serving fleet
#
#   make            build build/kvtwin            make MODE=debug|sanitize|coverage
#   make help       list the targets
MODE    ?= release
CC      ?= gcc
WERROR  ?=
PREFIX  ?= /usr/local
B       := build/$(MODE)
VERSION := 0.1.0

PACKAGES := gsl yaml-0.1 jansson zlib
HDF5     := $(shell pkg-config --exists hdf5-serial 2>/dev/null && echo hdf5-serial || echo hdf5)
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Wvla -Wcast-qual \
        -Wstrict-prototypes -Wmissing-prototypes -Wdouble-promotion -Wformat=2 -Wswitch-enum \
        -Wwrite-strings -Wpointer-arith

MODE_release  := -O2 -g
MODE_debug    := -O0 -g3 -DKVT_SLOW_CHECKS
MODE_sanitize := -O1 -g3 -DKVT_SLOW_CHECKS -fno-omit-frame-pointer -fsanitize=address,undefined \
                 -fno-sanitize-recover=all
MODE_coverage := -O0 -g --coverage

ALL_CPPFLAGS = -I. -D_POSIX_C_SOURCE=200809L -DKVT_VERSION='"$(VERSION)"' \
               -DKVT_DATADIR='"$(PREFIX)/share/kvtwin"' \
               $(shell pkg-config --cflags-only-I $(PACKAGES) $(HDF5) cunit) $(CPPFLAGS)
ALL_CFLAGS   = -std=c11 $(WARN) $(WERROR) -ffp-contract=off -fopenmp $(MODE_$(MODE)) $(CFLAGS)
ALL_LDFLAGS  = -fopenmp $(filter -fsanitize=% --coverage,$(MODE_$(MODE))) $(LDFLAGS)
LIBS         = $(shell pkg-config --libs $(PACKAGES) $(HDF5)) -lcsv -lm

SIM_DIRS  := base config model cost serve fault des trace metrics output plan
SIM_SRC   := $(foreach d,$(SIM_DIRS),$(wildcard sim/$(d)/*.c))
CLI_SRC   := $(wildcard cli/*.c)
TEST_SRC  := $(wildcard tests/*.c)
LIB_OBJ   := $(SIM_SRC:%.c=$(B)/%.o)
CLI_OBJ   := $(CLI_SRC:%.c=$(B)/%.o)
CLI_PARTS := $(filter-out $(B)/cli/main.o,$(CLI_OBJ))
TEST_OBJ  := $(TEST_SRC:%.c=$(B)/%.o)

all: build/kvtwin ## build the program

build/kvtwin: $(B)/kvtwin
	@ln -sfn $(MODE)/kvtwin $@

$(B)/kvtwin: $(B)/cli/main.o $(B)/libkvtwin.a
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(B)/libkvtwin.a: $(LIB_OBJ) $(CLI_PARTS)
	@rm -f $@
	ar rcs $@ $^

$(B)/check: $(TEST_OBJ) $(B)/libkvtwin.a
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) $(shell pkg-config --libs cunit)

$(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

test: all $(B)/check ## run the quick tests
	$(B)/check

clean: ## remove what was built
	rm -rf build

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14

.DELETE_ON_ERROR:
.PHONY: all test clean help
-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(TEST_OBJ:.o=.d)
