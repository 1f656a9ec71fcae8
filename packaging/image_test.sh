#!/usr/bin/env bash
# Starts the two images beside each other, as contrib/kubernetes does: the daemon answers over NBD,
# the driver over its socket, and the tools that the driver runs are there. Needs root and buildah.
#   packaging/image_test.sh IMAGES
# IMAGES holds spindle.tar and spindle-csi.tar (packaging/image.sh). SUITE is csi-sanity
# (target/tools/bin/csi-sanity). Exit status: 0 if all of it holds.
set -euo pipefail
images=$(realpath "$1")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
suite=${SUITE:-$here/../target/tools/bin/csi-sanity}
# What is mounted here is mounted for this script alone.
if [ -z "${SPINDLE_UNSHARED:-}" ]; then
  SPINDLE_UNSHARED=1 exec unshare --mount --propagation private bash "$0" "$@"
fi
dir=$(mktemp -d)
daemon= driver=
container() { buildah --root "$dir/storage" --runroot "$dir/run" --storage-driver vfs "$@"; }
finish() {
  local status=$? pid at
  # Only what was started here, by its number.
  for pid in $driver $daemon; do kill -KILL "$pid" 2>/dev/null || true; done
  for at in "$dir"/*-root/{run/spindle,dev,proc,sys}; do
    if mountpoint -q "$at"; then umount --recursive "$(realpath "$at")"; fi
  done
  rm -rf --one-file-system "$dir"
  exit "$status"
}
trap finish EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$dir"/*.log >&2 || true
  exit 1
}
. "$here/../tests/checks.sh"
# unpack NAME: the files of an image, in $dir/NAME-root, with what a container has beside them and
# the directory of the sockets. Its program is $entry.
unpack() {
  local from
  from=$(container from --quiet "oci-archive:$images/$1.tar")
  ln -s "$(container mount "$from")" "$dir/$1-root"
  [ ! -e "$dir/$1-root/bin/sh" ] || fail "$1 has a shell"
  entry=$(container inspect --format '{{index .OCIv1.Config.Entrypoint 0}}' "$from")
  mkdir -p "$dir/$1-root"/{run/spindle,dev,proc,sys}
  mount --rbind /dev "$dir/$1-root/dev"
  mount -t proc proc "$dir/$1-root/proc"
  mount -t sysfs -o ro sysfs "$dir/$1-root/sys"
  mount --bind "$dir/sockets" "$dir/$1-root/run/spindle"
}
within=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot)
inside() { "${within[@]}" "$dir/$1-root" "${@:2}"; }

mkdir "$dir/sockets"
unpack spindle
mkdir -p "$dir/spindle-root/etc/spindle"
cat >"$dir/spindle-root/etc/spindle/spindle.toml" <<'TOML'
[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "/var/lib/spindle/d0.img"

[pool]
disks = ["d0"]
TOML
inside spindle "$entry" pool create --config /etc/spindle/spindle.toml >/dev/null ||
  fail "no pool"
"${within[@]}" "$dir/spindle-root" "$entry" serve /etc/spindle/spindle.toml \
  --listen=unix:/run/spindle/nbd.sock --api=unix:/run/spindle/api.sock \
  >/dev/null 2>"$dir/daemon.log" &
daemon=$!
awaited 30 [ -S "$dir/sockets/nbd.sock" ]
inside spindle "$entry" vol create v1 --size 64MiB --socket /run/spindle/api.sock \
  >/dev/null || fail "no volume"
[ "$(nbdinfo --size "nbd+unix:///v1?socket=$dir/sockets/nbd.sock")" = 67108864 ] ||
  fail "another size"
inside spindle "$entry" vol rm v1 --socket /run/spindle/api.sock >/dev/null || fail "rm"
echo "the daemon's image serves"

unpack spindle-csi
for tool in 'blkid -V' 'mkfs.ext4 -V' 'e2fsck -V' 'mkfs.xfs -V' 'xfs_growfs -V' 'mount -V' \
  'umount -V'; do
  # shellcheck disable=SC2086
  inside spindle-csi $tool >/dev/null 2>&1 || fail "$tool"
done
{ inside spindle-csi resize2fs 2>&1 || true; } | grep -qi usage || fail "resize2fs"
"${within[@]}" "$dir/spindle-csi-root" "$entry" --endpoint=/run/spindle/csi.sock --node=node-1 \
  2>"$dir/driver.log" &
driver=$!
awaited 30 [ -S "$dir/sockets/csi.sock" ]
if [ -x "$suite" ]; then
  "$suite" -csi.endpoint "$dir/sockets/csi.sock" --ginkgo.no-color -csi.testvolumesize 67108864 \
    --ginkgo.focus 'Identity Service|CreateVolume|GetCapacity' >"$dir/sanity.log" 2>&1 ||
    fail "csi-sanity"
  grep -E 'Passed' "$dir/sanity.log"
else
  echo "SKIPPED: $suite is missing: the driver's image is started, and NOT called"
fi
for name in driver daemon; do
  ended=0
  kill -TERM "${!name}"
  wait "${!name}" || ended=$?
  [ "$ended" -eq 0 ] || fail "the $name ended with $ended"
  printf -v "$name" ''
done
echo "the driver's image answers, and both stop"
