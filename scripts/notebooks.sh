#!/bin/sh
# Execute the notebooks from a clean start and keep them with their output, as pages, in build/notebooks/.
#
#   notebooks.sh [NOTEBOOK...]     all of notebooks/ when none is named
#
# Exits 1 at the first cell that fails. Debian: jupyter-nbconvert python3-ipykernel python3-h5py
# python3-matplotlib python3-pandas.
set -eu
cd "$(dirname "$0")/.."
out=build/notebooks
mkdir -p "$out"
[ $# -gt 0 ] || set -- notebooks/*.ipynb
for book; do
    name=$(basename "$book" .ipynb)
    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m jupyter nbconvert --to html --execute \
        --ExecutePreprocessor.timeout=300 --output-dir "$out" "$book" >"$out/$name.log" 2>&1 || {
        tail -n 30 "$out/$name.log" >&2
        echo "notebooks.sh: $book failed; the whole log is $out/$name.log" >&2
        exit 1
    }
done
echo "notebooks.sh: $# executed; pages in $out/"
