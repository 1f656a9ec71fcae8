#!/usr/bin/env bash
# Writes what is shipped of a binary: instructions and data, without symbols, and without the
# identity of the build, which covers them too. Two builds of the same tree may differ in both: the
# names of symbols that several units share have a number in them that depends on the order in which
# the compiler visited a function's blocks, though the instructions that came out are the same.
#   packaging/shipped.sh BINARY OUT
set -euo pipefail
strip --remove-section=.note.gnu.build-id -o "$2" "$1"
