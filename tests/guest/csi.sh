#!/bin/bash
# Boots a Linux guest in which the Kubernetes driver and its daemon run, and makes the kubelet's
# calls there, over the kernel's NBD driver and over ublk, where the kernel has it (csi_guest.sh).
#   SPINDLE=path/to/spindle TESTS='path/to/node path/to/pods path/to/sanity' tests/guest/csi.sh
# SPINDLE is target/release/spindle unless given; spindle-csi lies beside it. TESTS are the test
# binaries of crates/csi, as `make guest-csi` finds them, SUITE is csi-sanity. ATTACH is `nbd` or
# `ublk` (nbd); KERNEL=6.12 boots that kernel instead of Debian 12's, which has no ublk. FULL=1 ends
# the driver at each step of each call, too, and has more kills and interleavings. Exit status: 0 if
# all checks hold, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"
export ATTACH=${ATTACH:-nbd}
suite=${SUITE:-$root/target/tools/bin/csi-sanity}
if [ -z "${FULL:-}" ]; then
  echo "SKIPPED: kills at each step of each call over $ATTACH: FULL=1 has them (ten minutes)"
fi
mkdir "$dir/bin"
# Without symbols, which the guest has no memory for.
strip -o "$dir/bin/spindle" "$spindle"
strip -o "$dir/bin/spindle-csi" "$(dirname "$spindle")/spindle-csi"
for test in $TESTS; do
  name=$(basename "$test")
  strip -o "$dir/bin/csi-test-${name%-*}" "$test"
done
if [ -x "$suite" ]; then
  strip -o "$dir/bin/csi-sanity" "$suite"
else
  echo "SKIPPED: $suite is missing: csi-sanity is NOT run over $ATTACH"
fi
tools=$(PATH=/usr/sbin:/sbin:$PATH command -v blkid mkfs.ext4 mkfs.xfs mount umount xfs_growfs)
# The modules of XFS, from the kernel that the guest boots.
modules=${GUEST_DIR:-${HOME:-/root}/.cache/spindle-guest}${KERNEL:+/$KERNEL}/kernel/lib/modules
for module in libcrc32c xfs; do
  found=$(find "$modules" -name "$module.ko" -o -name "$module.ko.xz")
  case $found in
    '') echo "SKIPPED: XFS over $ATTACH: the guest's kernel has no module $module" ;;
    *.xz) xz -dc "$found" > "$dir/bin/$module.ko" ;;
    *) cp "$found" "$dir/bin/$module.ko" ;;
  esac
done
export EXTRA="$(echo "$dir"/bin/*) ${tools//$'\n'/ }"
export ARGS="$ATTACH ${FULL:-0}" MEM=2048 TMO=${TMO:-1200}
status=0
bash "$guest" run "$here/csi_guest.sh" > "$dir/said" 2>&1 || status=$?
cat "$dir/said"
if [ "$status" -ne 0 ]; then
  echo "FAILED: the guest ended with $status" >&2
  exit 1
fi
