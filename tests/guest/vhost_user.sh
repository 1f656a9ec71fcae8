#!/bin/bash
# Boots a Linux guest whose disk is a volume over vhost-user-blk, and that writes to a file system
# on it while the daemon is stopped, killed and replaced by another build, and grows it
# (vhost_user_guest.sh).
#   SPINDLE=path/to/spindle tests/guest/vhost_user.sh
# SPINDLE is target/release/spindle unless given, OTHER another build of it. RESTARTS is the number
# of times that the daemon ends (4; 30 for ten of each kind). Exit status: 0 if all checks hold, or
# without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"
restarts_wanted=${RESTARTS:-4}
if [ "$restarts_wanted" -lt 30 ]; then
  echo "SKIPPED: $((30 - restarts_wanted)) of 30 restarts: RESTARTS=30 runs ten of each kind"
fi
another_build

cat > "$dir/plan.toml" <<'TOML'
[listen]
vhost_user = "vhost"

[[disk]]
name = "d0"
drive = "hgst-7k8"
write_buffer = "auto"
backing = "disk.img"

[[volume]]
name = "data"
disk = "d0"
size = "128MiB"
reserve = "50%"
TOML

serve

# The monitor connects again when its socket closes; the guest's requests wait meanwhile.
socket=$dir/vhost/data.sock
export EXTRA=$checks SMP=2 MEM=768
export TMO=$((240 + 30 * restarts_wanted)) LOG=$dir/serial.log ARGS=$restarts_wanted
export QEMUOPT="-object memory-backend-memfd,id=memory,size=${MEM}M,share=on
  -machine memory-backend=memory -chardev socket,id=disk,path=$socket,reconnect=1
  -device vhost-user-blk-pci,chardev=disk,num-queues=2"
: > "$LOG"
bash "$guest" run "$here/vhost_user_guest.sh" > "$dir/said" 2>&1 &
guest_run=$!

# The guest reports when its volume is to be served by another daemon, and when it is to grow.
restarts=0
while read -r line; do
  case $line in
    *@@RESTART*) restarts=$((restarts + 1)); restart "$restarts" ;;
    *@@GROW*) "$spindle" vol resize data 192MiB --socket "$dir/spindle-api.sock" ;;
    *@@GUEST-END*) break ;;
  esac
done < <(tail --pid="$guest_run" -n +1 -F "$LOG" 2>/dev/null)

ended=0
wait "$guest_run" || ended=$?
cat "$dir/said"
if [ "$ended" -ne 0 ] || [ "$restarts" -ne "$restarts_wanted" ]; then
  echo "FAILED: the guest ended with $ended after $restarts restarts" >&2
  cat "$dir/rest" >&2
  exit 1
fi
stop
echo "guest: a vhost-user-blk device held over $restarts restarts of its daemon"
