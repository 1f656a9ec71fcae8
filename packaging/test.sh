#!/usr/bin/env bash
# Installs, tries, upgrades under load and purges the .deb in a clean Debian root; needs root.
#   packaging/test.sh NOW NEXT ROOT
# NOW and NEXT are directories of packages of two versions, ROOT the archive of a Debian root
# (packaging/root.sh). Exit status: 0 if all of it holds.
set -euo pipefail
now=$(ls "$1"/spindle_*.deb)
now_lab=$(ls "$1"/spindle-lab_*.deb)
now_csi=$(ls "$1"/spindle-csi_*.deb)
next=$(ls "$2"/spindle_*.deb)
now_rpm=$(ls "$1"/spindle-[0-9]*.rpm)
next_rpm=$(ls "$2"/spindle-[0-9]*.rpm)
[ "$(id -u)" = 0 ] || { echo "$0: found another user, expected root" >&2; exit 2; }
# What is mounted here is mounted for this script alone.
if [ -z "${SPINDLE_UNSHARED:-}" ]; then
  SPINDLE_UNSHARED=1 exec unshare --mount --propagation private bash "$0" "$@"
fi
root=$(mktemp -d)
daemon= proxy= load=
finish() {
  local status=$? pid
  # Only what was started here, by its number.
  for pid in $load $proxy $daemon; do kill -KILL "$pid" 2>/dev/null || true; done
  if mountpoint -q "$root/proc"; then umount "$root/proc"; fi
  rm -rf --one-file-system "$root"
  exit "$status"
}
trap finish EXIT
fail() {
  echo "FAILED: $*" >&2
  for log in "$root"/tmp/*.log; do [ -e "$log" ] && tail -n 20 "$log" >&2; done
  exit 1
}
inside() { chroot "$root" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
. "$(dirname "${BASH_SOURCE[0]}")/../tests/checks.sh"

echo "lintian: no errors"
lintian --fail-on error "$now" "$now_lab" "$now_csi"

tar -C "$root" -xf "$3"
cp "$now" "$now_lab" "$now_csi" "$next" "$root/tmp/"
begun=$(date +%s)
echo "installed in a clean root"
# packages OPTION PACKAGE...: dpkg, its output in a file.
packages() { inside dpkg "$@" >"$root/tmp/dpkg.log" 2>&1 || fail "dpkg $*"; }
packages --install "/tmp/$(basename "$now")" "/tmp/$(basename "$now_lab")" \
  "/tmp/$(basename "$now_csi")"
mount -t proc proc "$root/proc"
chmod 1777 "$root/dev/shm"
inside getent passwd spindle >/dev/null || fail "no user"
inside spindle --version
inside spindle-csi --version
inside spindle init /var/lib/spindle/spindle.toml --yes --size 256MiB
config=/var/lib/spindle/spindle.toml
[ "$(inside stat -c %U "$config")" = spindle ] || fail "the config is not the daemon's"
inside spindle check "$config"
volume=$(inside sed -n '/^\[\[volume\]\]/,$s/^name = "\(.*\)"/\1/p' "$config")
for page in spindle spindle-serve spindle-vol-create spindle-lab-reproduce; do
  [ -e "$root/usr/share/man/man1/$page.1.gz" ] || fail "no page $page"
done
bash packaging/completions.sh "$root" || fail "the completions"

answers() { inside nbdinfo --size "$1" >/dev/null 2>&1; }
# serve: a daemon of the installed version, as the daemon's user.
serve() {
  inside install -d -o spindle -g spindle /run/spindle
  chroot "$root" /usr/bin/setpriv --reuid=spindle --regid=spindle --init-groups \
    /usr/bin/spindle serve "$config" --listen unix:/run/spindle/nbd.sock --api none \
    >>"$root/tmp/served.log" 2>&1 &
  daemon=$!
  awaited 60 answers "nbd+unix:///$volume?socket=/run/spindle/nbd.sock"
}
serve
size=$(inside nbdinfo --size "nbd+unix:///$volume?socket=/run/spindle/nbd.sock")
echo "$volume, $size bytes, is served $(($(date +%s) - begun)) s after the installation began"

echo "upgraded under fio --verify: the client waits for the next daemon"
server=server.type=unix,server.path=$root/run/spindle/nbd.sock
qemu-storage-daemon \
  --blockdev "driver=nbd,node-name=n,$server,export=$volume,reconnect-delay=120" \
  --nbd-server "addr.type=unix,addr.path=$root/tmp/proxy.sock" \
  --export type=nbd,id=e,node-name=n,name=a,writable=on >"$root/tmp/proxy.log" 2>&1 &
proxy=$!
awaited 60 answers "nbd+unix:///a?socket=/tmp/proxy.sock"
# Each round writes, reads back and compares; one is under way all the time.
rounds() {
  while [ ! -e "$root/tmp/enough" ]; do
    fio --name=verified --ioengine=nbd --uri="nbd+unix:///a?socket=$root/tmp/proxy.sock" \
      --rw=randwrite --bsrange=4k-64k --size=64m --iodepth=8 --verify=crc32c --verify_fatal=1 \
      --verify_state_save=0 --output="$root/tmp/fio.log" || return
    echo >>"$root/tmp/rounds"
  done
}
begun_round() { [ -s "$root/tmp/rounds" ]; }
rounds &
load=$!
awaited 60 begun_round
before=$(inside sha256sum /usr/bin/spindle)
packages --install "/tmp/$(basename "$next")"
[ "$(inside sha256sum /usr/bin/spindle)" != "$before" ] || echo "both versions have the same binary"
kill -TERM "$daemon"
stopped=0
wait "$daemon" || stopped=$?
[ "$stopped" -eq 0 ] || fail "the old daemon ended with $stopped"
serve
: >"$root/tmp/enough"
ended=0
wait "$load" || ended=$?
load=
[ "$ended" -eq 0 ] || fail "fio ended with $ended"
echo "$(wc -l <"$root/tmp/rounds") rounds of 64 MiB were verified, no error"
kill -TERM "$proxy" "$daemon"
wait "$proxy" "$daemon" || true
proxy= daemon=

echo "removed and purged: the data stays, and that is said"
packages --purge spindle-lab spindle-csi
packages --purge spindle
grep "are left as they are" "$root/tmp/dpkg.log" || fail "the purge says nothing of the data"
[ -s "$root/var/lib/spindle/disk0.img" ] && [ -s "$root$config" ] || fail "the data is gone"
for gone in bin/spindle lib/systemd/system/spindle.service share/man/man1/spindle.1.gz; do
  [ ! -e "$root/usr/$gone" ] || fail "/usr/$gone is left"
done

echo "the .rpm runs its scripts in a root: installed, upgraded, erased"
# The root has no other packages of rpm's, so that dependencies are not looked for.
with_rpm() { rpm --root "$root" --nodeps "$@" >"$root/tmp/rpm.log" 2>&1 || fail "rpm $*"; }
cp "$now_rpm" "$next_rpm" "$root/tmp/"
inside userdel spindle
with_rpm --install "$root/tmp/$(basename "$now_rpm")"
inside getent passwd spindle >/dev/null || fail "the .rpm has made no user"
inside spindle --version >/dev/null
with_rpm --upgrade "$root/tmp/$(basename "$next_rpm")"
! grep "are left as they are" "$root/tmp/rpm.log" || fail "an upgrade is taken for an erasure"
[ "$(rpm --root "$root" --query --queryformat '%{VERSION}\n' spindle | wc -l)" = 1 ] ||
  fail "both versions are installed"
inside spindle --version >/dev/null || fail "the upgrade has removed the binary"
with_rpm --erase spindle
grep "are left as they are" "$root/tmp/rpm.log" || fail "the erasure says nothing of the data"
[ -s "$root/var/lib/spindle/disk0.img" ] && [ -s "$root$config" ] || fail "the data is gone"
[ ! -e "$root/usr/bin/spindle" ] || fail "/usr/bin/spindle is left"
echo "the packages install, serve, upgrade under load and purge"
