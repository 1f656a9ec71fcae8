#!/bin/bash
# Verifies the systemd units and the drop-in of contrib/, and what their sandboxes expose.
#   tests/units.sh
# Exit status: 0 if systemd finds nothing wrong with them and they expose no more than is stated
# here, or without systemd-analyze; else not 0.
set -euo pipefail
contrib=$(cd "$(dirname "${BASH_SOURCE[0]}")/../contrib" && pwd)
if ! command -v systemd-analyze > /dev/null; then
  echo "SKIPPED: systemd units: no systemd-analyze"
  exit 0
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
units=$root/etc/systemd/system
mkdir -p "$units/spindle.service.d" "$root/lib/systemd" "$root/usr/bin" "$root/sbin"
cp -r /lib/systemd/system "$root/lib/systemd/"
cp "$contrib"/*.service "$contrib"/*.socket "$units/"
mkdir "$root/bin"
for program in usr/bin/spindle usr/bin/spindle-csi sbin/modprobe bin/mkdir; do
  : > "$root/$program"
  chmod +x "$root/$program"
done

# exposes UNIT TENTHS: at most this on systemd's scale from 0 to 10.
exposes() {
  systemd-analyze security --offline=true --threshold="$2" "$units/$1" > "$root/exposure" \
    || { tail -n 1 "$root/exposure"; echo "FAILED: at most $2 tenths are expected"; exit 1; }
  tail -n 1 "$root/exposure"
}

verify() {
  systemd-analyze verify --root="$root" --man=no spindle.service spindle.socket \
    spindle-attach@vm1.service spindle-csi.service > "$root/said" 2>&1 || true
  if grep -i spindle "$root/said"; then
    echo "FAILED: systemd-analyze verify${1:+ with $1}"
    exit 1
  fi
}

verify
exposes spindle.service 12
exposes spindle-attach@.service 27
exposes spindle-csi.service 60
cp "$contrib/spindle-ublk.conf" "$units/spindle.service.d/ublk.conf"
verify spindle-ublk.conf
exposes spindle.service 20
echo "systemd units: verified"
