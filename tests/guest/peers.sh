#!/bin/bash
# Compares Spindle with Linux's own schedulers on the same emulated disk, in a Linux guest: each
# client is a fio in a control group of its own. The guest's disks are vhost-user-blk devices, as
# an NBD client of qemu's keeps only 16 requests in flight. For Linux's schedulers the disk is one
# volume under `fcfs` with all commands in the drive's queue; for Spindle it is a volume a client,
# with default settings, and the guest orders nothing.
#   SPINDLE=path/to/spindle tests/guest/peers.sh RESULTS [CELL]
# Writes a line for each client to RESULTS, for `spindle-lab peers RESULTS`. DRIVE (hgst-7k8) of a
# KIND (mechanical; or flash) with room for SIZE_GIB (7000); each run lasts SECONDS_EACH (12) after
# RAMP (3). Exit status: 0 if all was measured, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=$(realpath -m "${1:?where the results go}")
only=${2:-}
. "$here/common.sh"
. "$here/peers_cells.sh"
drive=${DRIVE:-hgst-7k8}
kind=${KIND:-mechanical}
each=${SECONDS_EACH:-12}
ramp=${RAMP:-3}
size=${SIZE_GIB:-7000}

# run ARGUMENTS SECONDS VOLUME...: serves the plan and runs the clients in a guest, for SECONDS at
# most.
run() {
  serve
  export ARGS=$1 TMO=$2 SMP=2 MEM=1024 EXTRA="$here/peers_cells.sh"
  shift 2
  QEMUOPT="-object memory-backend-memfd,id=memory,size=${MEM}M,share=on
    -machine memory-backend=memory"
  for volume in "$@"; do
    QEMUOPT+=" -chardev socket,id=$volume,path=$dir/vhost/$volume.sock
      -device vhost-user-blk-pci,chardev=$volume,num-queues=2,queue-size=256"
  done
  export QEMUOPT
  status=0
  bash "$guest" run "$here/peers_guest.sh" > "$dir/said" 2>&1 || status=$?
  grep -o '@@PEER .*' "$dir/said" | sed 's/@@PEER //' >> "$results" || true
  if [ "$status" -ne 0 ]; then
    echo "FAILED: the guest ended with $status" >&2
    cat "$dir/said" "$dir/rest" >&2
    exit 1
  fi
  stop
}

disk() {
  printf '[listen]\nvhost_user = "vhost"\n\n[[disk]]\nname = "d0"\ndrive = "%s"\n' "$drive"
  printf 'backing = "disk.img"\n%b' "${1:-}"
}
# volume NAME GIB CONTRACT
volume() {
  printf '\n[[volume]]\nname = "%s"\ndisk = "d0"\nsize = "%sGiB"\n%b' "$1" "$2" "${3:-}"
}

mkdir -p "$(dirname "$results")"
echo "# $drive, ${each} s each, $(date -u +%Y-%m-%d), load $(cut -d ' ' -f 1 /proc/loadavg)" \
  > "$results"
{
  disk 'policy = "fcfs"\ndepth = 32\n'
  volume whole "$size"
} > "$dir/plan.toml"
run "linux $kind $ramp $each $only" 3600 whole

while read -r name clients; do
  if [ -z "$name" ] || { [ -n "$only" ] && [ "$name" != "$only" ]; }; then continue; fi
  read -ra each_client <<< "$clients"
  volumes=()
  disk > "$dir/plan.toml"
  for client in "${each_client[@]}"; do
    volumes+=("v${#volumes[@]}")
    volume "${volumes[-1]}" $((size / ${#each_client[@]})) "reserve = \"${client%:*}%\"\n" \
      >> "$dir/plan.toml"
  done
  rm -f "$dir/disk.img"
  run "volumes $kind $ramp $each $name" 300 "${volumes[@]}"
done <<< "$(cells "$kind")"
echo "guest: $(grep -vc '^#' "$results") clients measured: spindle-lab peers $results"
