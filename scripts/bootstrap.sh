#!/bin/sh
# Install what kvtwin needs and the machine lacks. Called by make before anything is compiled.
#
#   bootstrap.sh build    what `make` and `make demo` need
#   bootstrap.sh check    what `make check` needs besides
#   bootstrap.sh notebooks   what `make notebooks` needs
#   bootstrap.sh spin     what `make spin` needs
#   bootstrap.sh analyse|tsan|valgrind|coverage   what these targets of the Makefile need
#
# Each row asks for a thing (a program, a pkg-config module, a header), not for a package, so that
# a machine set up in another way is left alone. With everything there, apt is not called. Without
# root or sudo the missing packages are named, with the command that installs them.
set -u

program() { command -v "$1" >/dev/null 2>&1; }
module() { program pkg-config && pkg-config --exists "$1"; }
header() { printf '#include <%s>\n' "$1" | "${CC:-gcc}" -E - >/dev/null 2>&1; }
clang_header() { printf '#include <%s>\n' "$1" | clang -fopenmp -E - >/dev/null 2>&1; }

python_module() { /usr/bin/python3 -c "import $1" >/dev/null 2>&1; }

missing=
need() { # need PACKAGE test ARGUMENT [test ARGUMENT]: one of the tests must hold
    package=$1
    shift
    while [ $# -ge 2 ]; do
        if "$1" "$2"; then return; fi
        shift 2
    done
    missing="$missing $package"
}

case ${1:-build} in
build)
    need make program make
    need gcc program "${CC:-gcc}"
    need libc6-dev header stdlib.h
    need pkg-config program pkg-config
    need libgsl-dev module gsl
    need libhdf5-dev module hdf5-serial module hdf5
    need libyaml-dev module yaml-0.1
    need libcunit1-dev module cunit
    need libjansson-dev module jansson
    need zlib1g-dev module zlib
    need libcsv-dev header csv.h
    need librandom123-dev header Random123/philox.h
    need uthash-dev header uthash.h
    ;;
check)
    need groff-base program groff
    need clang program clang
    need g++ program g++
    need libomp-dev clang_header omp.h
    need libopenmpi-dev program mpicc
    need openmpi-bin program mpirun
    need python3 program python3
    ;;
notebooks)
    need jupyter-nbconvert python_module nbconvert
    need python3-ipykernel python_module ipykernel
    need python3-h5py python_module h5py
    need python3-matplotlib python_module matplotlib
    need python3-pandas python_module pandas
    ;;
spin)
    need spin program spin
    ;;
analyse)
    need clang-tidy program clang-tidy
    need cppcheck program cppcheck
    need shellcheck program shellcheck
    ;;
tsan)
    need clang program clang
    need libomp-dev clang_header omp.h # and Archer
    ;;
valgrind)
    need valgrind program valgrind
    ;;
coverage)
    need gcovr program gcovr
    ;;
*)
    echo "usage: bootstrap.sh build|check|notebooks|spin|analyse|tsan|valgrind|coverage" >&2
    exit 2
    ;;
esac
[ -n "$missing" ] || exit 0

echo "bootstrap: missing:$missing" >&2
install="apt-get install -y --no-install-recommends$missing"

if ! program apt-get; then
    echo "bootstrap: this machine has no apt-get; install what these Debian packages hold" >&2
    exit 1
elif [ "$(id -u)" -eq 0 ]; then
    root=
elif program sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    root="sudo"
else
    printf 'bootstrap: neither root nor sudo; please run\n\n    sudo %s\n\n' "$install" >&2
    exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
    # shellcheck disable=SC2086
    $root env DEBIAN_FRONTEND=noninteractive "$@" </dev/null >"$log" 2>&1 && return
    cat "$log" >&2
    return 1
}
echo "bootstrap: installing them with apt-get (once; a minute or two)" >&2
# The lists may be old or absent: try with them first, then fetch them.
# shellcheck disable=SC2086
quietly $install -o DPkg::Lock::Timeout=120 2>/dev/null || {
    echo "bootstrap: refreshing the package lists" >&2
    quietly apt-get update -o DPkg::Lock::Timeout=120 && quietly $install -o DPkg::Lock::Timeout=120
} || {
    printf 'bootstrap: apt-get failed; please run\n\n    %s\n\n' "${root:+sudo }$install" >&2
    exit 1
}
echo "bootstrap: done" >&2
