#!/bin/bash
# Boots a Linux guest on a volume of a pool of three disks: it makes an ext4 file system there and
# unpacks a tree; the daemon restarts, the volume grows and is relocated; the guest grows the file
# system, and finds every file unchanged.
#   SPINDLE=path/to/spindle tests/guest/pool.sh
# SPINDLE is target/release/spindle unless given. Exit status: 0 if all
# checks hold, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

for disk in d0 d1 d2; do
  printf '[[disk]]\nname = "%s"\ndrive = "hgst-7k8"\nbacking = "%s.img"\n\n' "$disk" "$disk"
done > "$dir/plan.toml"
cat >> "$dir/plan.toml" <<'TOML'
[pool]
disks = ["d0", "d1", "d2"]
relocation_share = "50%"

[[pool.volume]]
name = "guest"
size = "512MiB"
layout = "stripe"
disks = ["d0", "d1"]
reserve = "40%"
TOML

"$spindle" pool create --config "$dir/plan.toml"
serve
boot "$here/pool_make.sh" guest | tee "$dir/made"
stop
serve
api=$dir/spindle-api.sock
"$spindle" vol resize --socket "$api" guest 1GiB
"$spindle" vol snapshot --socket "$api" guest before
# Its blocks are relocated while the guest reads and writes them.
"$spindle" vol move --socket "$api" guest --disks d2,d1
boot "$here/pool_grow.sh" guest | tee "$dir/grown"
"$spindle" vol move --socket "$api" guest --disks d2,d1 --wait
stop
"$spindle" pool fsck --config "$dir/plan.toml"
sum() { sed -n 's/^sums: //p' "$1"; }
if [ -z "$(sum "$dir/made")" ] || [ "$(sum "$dir/made")" != "$(sum "$dir/grown")" ]; then
  echo "FAILED: the guest made '$(sum "$dir/made")' and found '$(sum "$dir/grown")'" >&2
  exit 1
fi
echo "guest: ext4 grew with a volume of a pool, over a restart and while it was moved"
