#!/bin/bash
# Boots a Linux guest whose disk is a Spindle volume, and has it put an ext4 file system on it
# (ext4.sh).
#   SPINDLE=path/to/spindle tests/guest/run.sh
# SPINDLE is target/release/spindle unless given. Exit status: 0 if all
# checks hold, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

cat > "$dir/plan.toml" <<'TOML'
[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "disk.img"

[[volume]]
name = "guest"
disk = "d0"
size = "2GiB"
reserve = "50%"
TOML

serve
boot "$here/ext4.sh" guest
stop
cat "$dir/accounts.json"
echo "guest: ext4 held on a volume of spindle"
