#!/bin/bash
# Boots each guest that `make guest` has: those of Debian 12's kernel one after the other, and
# beside them those of Linux 6.12. A guest takes about one processor.
#   SPINDLE=path/to/spindle OTHER=path/to/another SUITE=path/to/csi-sanity \
#     TESTS='path/to/node path/to/pods path/to/sanity' tests/guest/all.sh
# What they are is said in attach.sh and csi.sh. Exit status: 0 if all checks hold, or without a
# guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"
# What is missing is installed by one process, before there are two.
KERNEL=6.12 bash "$guest" prepare

debian() {
  bash "$here/run.sh" &&
    bash "$here/pool.sh" &&
    bash "$here/restart.sh" &&
    bash "$here/attach.sh" &&
    bash "$here/vhost_user.sh" &&
    bash "$here/clients.sh" sample &&
    SECONDS_EACH=1 RAMP=1 bash "$here/peers.sh" "$root/out/peers-sample.txt" random-16-one &&
    bash "$here/csi.sh"
}
newer() {
  KERNEL=6.12 bash "$here/ublk.sh" &&
    KERNEL=6.12 bash "$here/write_cache.sh" &&
    KERNEL=6.12 bash "$here/mirror.sh" &&
    KERNEL=6.12 ATTACH=ublk bash "$here/csi.sh"
}

newer > "$dir/newer" 2>&1 &
beside=$!
ended=0
debian || ended=$?
newer_ended=0
wait "$beside" || newer_ended=$?
echo "on Linux 6.12:"
cat "$dir/newer"
if [ "$ended" -ne 0 ] || [ "$newer_ended" -ne 0 ]; then
  echo "FAILED: the guests ended with $ended, those of Linux 6.12 with $newer_ended" >&2
  exit 1
fi
