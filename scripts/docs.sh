#!/usr/bin/env bash
# Builds the API reference and the documents of docs/ into build/docs/html. Fails on any Doxygen warning.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/bootstrap.sh docs
mkdir -p build/docs
version=$(sed -n 's/^project(attn VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
sed -e "s|@VERSION@|$version|" -e "s|@OUTPUT@|build/docs|" docs/Doxyfile.in >build/docs/Doxyfile
doxygen build/docs/Doxyfile
echo "build/docs/html/index.html"
