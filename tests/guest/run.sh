#!/bin/bash
# Boots a Linux guest whose disk is a Spindle volume, and has it put an ext4 file system on it (ext4.sh).
#   SPINDLE=path/to/spindle tests/guest/run.sh
# SPINDLE is target/release/spindle unless given. Exit status: 0 all held, or there is no guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
guest=$root/../shared/guest/guest.sh
spindle=${SPINDLE:-$root/target/release/spindle}

if [ ! -f "$guest" ]; then
  echo "SKIPPED: no guest to boot: ../shared/guest/guest.sh is missing beside the project"
  exit 0
fi
if [ ! -x "$spindle" ]; then
  echo "run.sh: $spindle is not there: build it (cargo build --release), or say where it is in SPINDLE" >&2
  exit 2
fi
bash "$guest" prepare

dir=$(mktemp -d)
daemon=
finish() {
  status=$?
  # Only the daemon that was started here, by its number.
  if [ -n "$daemon" ]; then kill -KILL "$daemon" 2>/dev/null || true; fi
  rm -rf "$dir"
  exit "$status"
}
trap finish EXIT

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

# The daemon says when it listens; a pipe waits for that, and ends if the daemon does.
mkfifo "$dir/words"
"$spindle" serve "$dir/plan.toml" --listen "unix:$dir/nbd.sock" --json > "$dir/accounts.json" 2> "$dir/words" &
daemon=$!
exec 3< "$dir/words"
listening=
while read -r line <&3; do
  echo "spindle: $line"
  case $line in "listening on "*) listening=yes; break ;; esac
done
if [ -z "$listening" ]; then
  echo "FAILED: spindle does not serve" >&2
  exit 1
fi
cat <&3 > "$dir/rest" &

status=0
bash "$guest" run "$here/ext4.sh" "nbd+unix:///guest?socket=$dir/nbd.sock" || status=$?
if [ "$status" -ne 0 ]; then
  echo "FAILED: the guest ended with $status" >&2
  cat "$dir/rest" >&2
  exit "$status"
fi

kill -TERM "$daemon"
stopped=0
wait "$daemon" || stopped=$?
daemon=
if [ "$stopped" -ne 0 ]; then
  echo "FAILED: spindle ended with $stopped" >&2
  cat "$dir/rest" >&2
  exit 1
fi
cat "$dir/accounts.json"
echo "guest: ext4 held on a volume of spindle"
