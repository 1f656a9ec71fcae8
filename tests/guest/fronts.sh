#!/bin/bash
# Measures the fronts of a volume on a disk in memory in Linux guests (`spindle-lab bench fronts`):
# over an NBD socket, as a device of the kernel's NBD driver and by ublk with the daemon in the
# guest (Linux 6.12); by vhost-user from the daemon on this machine, beside qemu-storage-daemon's
# own vhost-user export. The guests' processor is emulated: only figures of one guest compare.
#   SPINDLE=path/to/spindle LAB=path/to/spindle-lab tests/guest/fronts.sh [local|vhost-user]
# Both are of target/release unless given. SECONDS_EACH is the duration of each cell (1), ROUNDS the
# number of rounds (3). Exit status: 0 if it measured, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"
lab=${LAB:-$root/target/release/spindle-lab}
if [ ! -x "$lab" ]; then
  echo "$0: $lab does not exist: build it (cargo build --release) or set LAB" >&2
  exit 2
fi
# Beside the daemon, another server and its disk in memory are removed at the end.
other= disk=
ended() {
  status=$?
  set +e
  if [ -n "$other" ]; then kill -KILL "$other" 2> /dev/null; fi
  if [ -n "$disk" ]; then rm -rf "$disk"; fi
  (exit "$status")
  finish
}
trap ended EXIT
seconds=${SECONDS_EACH:-1}
rounds=${ROUNDS:-3}
mkdir "$dir/bin"
# Without symbols, which the guest has no memory for.
strip -o "$dir/bin/spindle-lab" "$lab"
export EXTRA=$dir/bin/spindle-lab SMP=2 MEM=1024

# measure [NAME=DEVICE...]: boots a guest that measures, and prints its table.
measure() {
  # Three fronts at most, eight rows; fio needs about two seconds to start.
  export ARGS="--seconds $seconds --rounds $rounds $*" TMO=$((180 + 24 * rounds * (seconds + 3)))
  status=0
  bash "$guest" run "$here/fronts_guest.sh" > "$dir/said" 2>&1 || status=$?
  cat "$dir/said"
  if [ "$status" -ne 0 ]; then
    echo "FAILED: the guest ended with $status" >&2
    exit 1
  fi
  echo "load average of the host: $(cut -d ' ' -f 1-3 /proc/loadavg)"
}

local_fronts() {
  KERNEL=6.12 bash "$guest" prepare > /dev/null
  KERNEL=6.12 measure
}

vhost_user() {
  cat > "$dir/plan.toml" <<'TOML'
[listen]
vhost_user = "vhost"

[[disk]]
name = "d"
drive = "memory"
size = "64MiB"

[[volume]]
name = "v"
disk = "d"
size = "64MiB"
reserve = "100%"
TOML
  serve
  disk=$(mktemp -d /dev/shm/fronts.XXXXXX)
  truncate -s 64M "$disk/disk.raw"
  where=addr.type=unix,addr.path=$dir/q.sock
  qemu-storage-daemon --blockdev "driver=file,node-name=file,filename=$disk/disk.raw" \
    --blockdev driver=raw,node-name=disk,file=file \
    --export "type=vhost-user-blk,id=e,node-name=disk,$where,writable=on,num-queues=2" &
  other=$!
  for _ in $(seq 100); do
    if [ -S "$dir/q.sock" ]; then break; fi
    sleep 0.1
  done
  export QEMUOPT="-object memory-backend-memfd,id=memory,size=${MEM}M,share=on
    -machine memory-backend=memory
    -chardev socket,id=one,path=$dir/vhost/v.sock
    -device vhost-user-blk-pci,chardev=one,num-queues=2
    -chardev socket,id=two,path=$dir/q.sock
    -device vhost-user-blk-pci,chardev=two,num-queues=2"
  measure qemu-storage-daemon=/dev/vdb spindle=/dev/vda
  unset QEMUOPT
  kill -TERM "$other"
  wait "$other" || true
  other=
  stop
}

for name in ${@:-local vhost-user}; do
  case $name in
    local) local_fronts ;;
    vhost-user) vhost_user ;;
    *) echo "$0: $name: expected local or vhost-user" >&2; exit 2 ;;
  esac
done
