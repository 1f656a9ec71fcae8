#!/bin/bash
# The write cache of a SCSI drive without FUA stays on while a daemon serves the drive, which is
# flushed; with `write_cache = "off"` it is off, and on again when the daemon has stopped. In a
# guest, as the drive is the guest's.
#   SPINDLE=target/release/spindle bash tests/guest/write_cache.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

# The guest's initial file system has no SCSI drivers; the kernel beside it has.
kernel=${GUEST_DIR:-$HOME/.cache/spindle-guest}${KERNEL:+/$KERNEL}/kernel
modules=
for name in scsi_common scsi_mod sd_mod virtio_scsi; do
  file=$(find "$kernel/lib/modules" -name "$name.ko*" | head -n 1)
  case $file in
    *.xz) xz -dc "$file" > "$dir/$name.ko" ;;
    *.ko) cp "$file" "$dir/$name.ko" ;;
    *) echo "SKIPPED: the guest's kernel has no module $name"; exit 0 ;;
  esac
  modules="$modules $dir/$name.ko"
done
truncate -s 64M "$dir/drive.img"
strip -o "$dir/spindle" "$spindle" 2>/dev/null || cp "$spindle" "$dir/spindle"
QEMUOPT="-device virtio-scsi-pci -drive file=$dir/drive.img,format=raw,if=none,id=s0 \
  -device scsi-hd,drive=s0" \
  EXTRA="$dir/spindle $modules" TMO=${TMO:-600} \
  bash "$guest" run "$here/write_cache_guest.sh"
