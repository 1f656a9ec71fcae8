#!/bin/bash
# Boots a Linux guest that writes to a file system on a mirror while one of its disks is lost, comes
# back, and is lost again (mirror_guest.sh); then another that reads it while another disk is
# missing.
#   SPINDLE=path/to/spindle tests/guest/mirror.sh
# SPINDLE is target/release/spindle unless given. Exit status: 0 if all
# checks hold, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

# plan FAULTS: the config, with these faults of the second disk.
plan() {
  for disk in d0 d1 d2; do
    printf '[[disk]]\nname = "%s"\ndrive = "samsung-870evo-1t"\nbacking = "%s.img"\n' \
      "$disk" "$disk"
    if [ "$disk" = d1 ]; then echo "$1"; fi
  done > "$dir/plan.toml"
  cat >> "$dir/plan.toml" <<'TOML'
[pool]
disks = ["d0", "d1", "d2"]
rebuild = { reserve = "20%" }

[[pool.volume]]
name = "guest"
size = "512MiB"
layout = "mirror"
reserve = "40%"
TOML
}
api=$dir/spindle-api.sock
pool_status() { "$spindle" pool status --socket "$api" "$@"; }
fail() {
  echo "FAILED: $*" >&2
  pool_status >&2
  exit 1
}

plan 'faults = { vanish_after = 150 }'
"$spindle" pool create --config "$dir/plan.toml"
serve
export LOG=$dir/serial.log
: > "$LOG"
boot "$here/mirror_guest.sh" guest > "$dir/said" 2>&1 &
guest_run=$!
losses=0
while read -r line; do
  case $line in
    *@@WRITTEN*) ;;
    *@@GUEST-END*) break ;;
    *) continue ;;
  esac
  pool_status | grep '^out: disk d1' || fail "d1 is not out: $line"
  losses=$((losses + 1))
  "$spindle" disk reopen --socket "$api" d1 > /dev/null
done < <(tail --pid="$guest_run" -n +1 -F "$LOG" 2> /dev/null)
ended=0
wait "$guest_run" || ended=$?
cat "$dir/said"
if [ "$ended" -ne 0 ] || [ "$losses" -ne 2 ]; then
  fail "the guest ended with $ended after $losses losses of a disk"
fi
stop

# All copies are made equal; then d0 is missing.
plan ''
serve
is_equal() {
  pool_status --json > "$dir/status"
  ! grep -qE '"degraded_bytes":[1-9]|"running":true|"verifying":true' "$dir/status" &&
    ! grep -qE '"state":"(out|failing)"' "$dir/status"
}
. "$checks"
awaited 120 is_equal
stop
"$spindle" pool fsck --config "$dir/plan.toml"
mv "$dir/d0.img" "$dir/away.img"
serve
ARGS=again boot "$here/mirror_guest.sh" guest | tee "$dir/again"
stop
sum() { sed -n 's/^sums: //p' "$1"; }
if [ -z "$(sum "$dir/said")" ] || [ "$(sum "$dir/said")" != "$(sum "$dir/again")" ]; then
  echo "FAILED: the guest made '$(sum "$dir/said")' and found '$(sum "$dir/again")'" >&2
  exit 1
fi
echo "guest: ext4 held on a mirror over $losses losses of a disk, and without another"
