#!/bin/bash
# Boots a Linux 6.12 guest in which the daemon runs and serves a volume as a ublk device, and writes
# to a file system on it while the daemon is stopped, killed and replaced by another build
# (ublk_guest.sh).
#   SPINDLE=path/to/spindle tests/guest/ublk.sh
# SPINDLE is target/release/spindle unless given, OTHER another build of it. RESTARTS is the number
# of times that the daemon ends (6: two of each kind; 30 for ten of each). KERNEL is the guest's
# kernel (6.12; Debian 12's 6.1 has no ublk). FRONTS=1 measures the shares of two volumes at 50 %
# each, one used by NBD and one by ublk. STOPS is the number of stops under 64 outstanding requests
# (10, ublk_stops_guest.sh). Exit status: 0 if all checks hold, or without a guest
# to boot or a ublk driver in its kernel; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export KERNEL=${KERNEL-6.12}
. "$here/common.sh"
restarts=${RESTARTS:-6}
if [ "$restarts" -lt 30 ]; then
  echo "SKIPPED: $((30 - restarts)) of 30 restarts: RESTARTS=30 runs ten of each kind"
fi

another_build
if [ -z "${FRONTS:-}" ]; then
  echo "SKIPPED: shares of two fronts at 50/50: FRONTS=1 measures them (30 s)"
fi
mkdir "$dir/bin"
# Without symbols, which the guest has no memory for.
strip -o "$dir/bin/spindle" "$spindle"
strip -o "$dir/bin/spindle-other" "$other"
export EXTRA="$dir/bin/spindle $dir/bin/spindle-other $checks" MEM=1536
export ARGS="$restarts ${FRONTS:-0}" TMO=$((240 + 30 * restarts))
status=0
bash "$guest" run "$here/ublk_guest.sh" > "$dir/said" 2>&1 || status=$?
cat "$dir/said"
if [ "$status" -ne 0 ]; then
  echo "FAILED: the guest ended with $status" >&2
  exit 1
fi
echo "guest: a ublk device held over $restarts ends of its daemon"

stops=${STOPS:-10}
export EXTRA="$dir/bin/spindle $checks" ARGS="$stops" SMP=2 TMO=$((120 + 10 * stops))
bash "$guest" run "$here/ublk_stops_guest.sh" || status=$?
if [ "$status" -ne 0 ]; then
  echo "FAILED: the guest ended with $status" >&2
  exit 1
fi
