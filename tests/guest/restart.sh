#!/bin/bash
# Boots a Linux guest that writes to a file system while the daemon is stopped, killed and started
# again under it (restart_guest.sh): it sees a pause, and no error. A second volume is attached by
# its own nbd-client, over TCP.
#   SPINDLE=path/to/spindle tests/guest/restart.sh
# SPINDLE is target/release/spindle unless given. Exit status: 0 if all
# checks hold, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

cat > "$dir/plan.toml" <<'TOML'
[[disk]]
name = "d0"
drive = "samsung-870evo-1t"
backing = "disk.img"

[[volume]]
name = "guest"
disk = "d0"
size = "512MiB"
reserve = "50%"

[[volume]]
name = "second"
disk = "d0"
size = "64MiB"
TOML

serve --listen 127.0.0.1:0
address=$listening

# The guest's disk waits for an absent server; the guest's kernel waits for its disk.
export DRVOPT=file.reconnect-delay=60 NET=1 ARGS=${address##*:} LOG=$dir/serial.log
: > "$LOG"
boot "$here/restart_guest.sh" guest > "$dir/said" 2>&1 &
guest_run=$!

# The guest reports when it writes. Each time the daemon ends, the second time by SIGKILL, and
# another one starts.
restarts=0
while read -r line; do
  case $line in
    *@@RESTART*) ;;
    *@@GUEST-END*) break ;;
    *) continue ;;
  esac
  restarts=$((restarts + 1))
  if [ $((restarts % 2)) -eq 0 ]; then
    kill -KILL "$daemon"
    wait "$daemon" || true
  else
    stop
  fi
  serve --listen "$address"
done < <(tail --pid="$guest_run" -n +1 -F "$LOG" 2>/dev/null)

ended=0
wait "$guest_run" || ended=$?
cat "$dir/said"
if [ "$ended" -ne 0 ] || [ "$restarts" -ne 4 ]; then
  echo "FAILED: the guest ended with $ended after $restarts restarts" >&2
  exit 1
fi
stop
echo "guest: a file system held over $restarts restarts of the daemon under it"
