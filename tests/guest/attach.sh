#!/bin/bash
# Boots a Linux guest that attaches a volume by `spindle attach --supervise`, over TCP, and writes
# to a file system on it while the daemon is stopped, killed and replaced by another build
# (attach_guest.sh).
#   SPINDLE=path/to/spindle tests/guest/attach.sh
# SPINDLE is target/release/spindle unless given, OTHER another build of it. RESTARTS is the number
# of times that the daemon ends (4; 30 for ten of each kind). KERNEL=6.12 boots that kernel instead
# of Debian 12's. Exit status: 0 if all checks hold, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"
restarts_wanted=${RESTARTS:-4}
if [ -z "${KERNEL:-}" ]; then
  echo "SKIPPED: attach on Linux 6.12: KERNEL=6.12 tests/guest/attach.sh runs it"
fi
if [ "$restarts_wanted" -lt 30 ]; then
  echo "SKIPPED: $((30 - restarts_wanted)) of 30 restarts: RESTARTS=30 runs ten of each kind"
fi
another_build

cat > "$dir/plan.toml" <<'TOML'
[[disk]]
name = "d0"
drive = "hgst-7k8"
write_buffer = "auto"
backing = "disk.img"

[[volume]]
name = "second"
disk = "d0"
size = "64MiB"

[[volume]]
name = "data"
disk = "d0"
size = "128MiB"
reserve = "50%"
TOML

serve --listen 127.0.0.1:0
address=$listening

mkdir "$dir/bin"
# Without symbols, which the guest has no memory for.
strip -o "$dir/bin/spindle" "$spindle"
export NET=1 LOG=$dir/serial.log EXTRA="$dir/bin/spindle $checks"
export TMO=$((180 + 30 * restarts_wanted))
export ARGS="10.0.2.2:${address##*:} $restarts_wanted"
: > "$LOG"
bash "$guest" run "$here/attach_guest.sh" > "$dir/said" 2>&1 &
guest_run=$!

# The guest reports when its volume is to be served by another daemon, and when it is to grow.
restarts=0
while read -r line; do
  case $line in
    *@@RESTART*)
      restarts=$((restarts + 1))
      restart "$restarts" --listen "$address"
      ;;
    *@@GROW*) "$spindle" vol resize data 192MiB --socket "$dir/spindle-api.sock" ;;
    *@@GUEST-END*) break ;;
  esac
done < <(tail --pid="$guest_run" -n +1 -F "$LOG" 2>/dev/null)

ended=0
wait "$guest_run" || ended=$?
cat "$dir/said"
if [ "$ended" -ne 0 ] || [ "$restarts" -ne "$restarts_wanted" ]; then
  echo "FAILED: the guest ended with $ended after $restarts restarts" >&2
  exit 1
fi
stop
echo "guest: an attached volume held over $restarts restarts of its daemon"
