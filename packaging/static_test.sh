#!/usr/bin/env bash
# Runs the static build alone in an empty root, as an image does: writes a config, serves it, and
# stops; needs root.
#   packaging/static_test.sh BINARY
set -euo pipefail
binary=$(realpath "$1")
root=$(mktemp -d)
daemon=
finish() {
  local status=$?
  if [ -n "$daemon" ]; then kill -KILL "$daemon" 2>/dev/null || true; fi
  rm -rf "$root"
  exit "$status"
}
trap finish EXIT
fail() {
  echo "FAILED: $*" >&2
  cat "$root/words" >&2
  exit 1
}
! readelf --program-headers "$binary" | grep -q INTERP || fail "it asks for a loader"
mkdir -p "$root/usr/bin" "$root/var/lib/spindle"
cp "$binary" "$root/usr/bin/spindle"
: >"$root/words"
chroot "$root" /usr/bin/spindle --version
chroot "$root" /usr/bin/spindle init /var/lib/spindle/spindle.toml --yes --size 64MiB
chroot "$root" /usr/bin/spindle serve /var/lib/spindle/spindle.toml --api none \
  --listen unix:/nbd.sock >"$root/accounts" 2>"$root/words" &
daemon=$!
left=300
until [ -S "$root/nbd.sock" ]; do
  left=$((left - 1))
  [ "$left" -gt 0 ] && kill -0 "$daemon" 2>/dev/null || fail "it does not serve"
  sleep 0.1
done
uri="nbd+unix:///vm1?socket=$root/nbd.sock"
[ "$(nbdinfo --size "$uri")" = 33554432 ] || fail "another size"
fio --name=verified --ioengine=nbd --uri="$uri" --rw=randwrite --bs=16k --size=16m --iodepth=8 \
  --verify=crc32c --verify_fatal=1 --verify_state_save=0 --output="$root/fio" ||
  fail "fio: $(cat "$root/fio")"
kill -TERM "$daemon"
stopped=0
wait "$daemon" || stopped=$?
daemon=
[ "$stopped" -eq 0 ] || fail "it ended with $stopped"
echo "the static build serves in an empty root"
