#!/usr/bin/env bash
# Builds the images of the daemon and of the Kubernetes driver, OUT/spindle.tar and
# OUT/spindle-csi.tar: OCI archives. Each has its binary, the tools that it runs, the
# libraries of both from this machine's Debian packages, licences, and nothing else: no shell and no
# package manager. /usr/share/doc/packages lists the packages with their versions. The same tree,
# binaries and packages give the same bytes. Needs buildah.
#   packaging/image.sh BINARIES OUT
# BINARIES holds `spindle` and `spindle-csi`. SOURCE_DATE_EPOCH is the time of all files, else that
# of the last commit; VERSION is the images' tag, else the workspace's.
set -euo pipefail
export LC_ALL=C TZ=UTC
here=$(dirname "${BASH_SOURCE[0]}")
binaries=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$here/.."
if ! command -v dpkg-query >/dev/null; then
  echo "packaging/image.sh: found no dpkg-query, expected a Debian machine" >&2
  exit 2
fi
workspace=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
version=${VERSION:-$workspace}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
triple=${TRIPLE:-$(rustc -vV | sed -n 's/^host: //p')}
stage=$(mktemp -d)
finish() {
  local status=$?
  rm -rf --one-file-system "$stage"
  exit "$status"
}
trap finish EXIT

# package FILE: the package that a file is of. The package may name it without or with /usr before:
# the two are one directory now.
package() {
  local path
  for path in "$1" "/usr$1" "${1#/usr}"; do
    if dpkg-query -S "$path" 2>/dev/null; then return 0; fi
  done | sed -n '1s/:.*//p'
}
# copy FILE ROOT: a file of this machine under its path, and its package's name and licence.
copy() {
  local file=$1 root=$2 of
  [ ! -e "$root$file" ] || return 0
  install -D -m "$(stat -Lc %a "$file")" "$file" "$root$file"
  of=$(package "$file")
  [ -n "$of" ] || { echo "packaging/image.sh: found $file of no package" >&2; exit 2; }
  # shellcheck disable=SC2016
  dpkg-query -W -f '${Package} ${Version}\n' "$of" | head -n 1 >>"$root/packages"
  install -D -m 0644 "/usr/share/doc/$of/copyright" "$root/usr/share/doc/$of/copyright"
}
# libraries FILE ROOT: the shared libraries and the loader that a file needs.
libraries() {
  local library
  for library in $(ldd "$1" | grep -o '/[^ ]*'); do copy "$library" "$2"; done
}
# fill NAME BINARY TOOL...: the files of an image.
fill() {
  local root=$stage/$1 binary=$2 tool path
  shift 2
  install -d "$root/usr/share/doc/spindle" "$root/usr/bin" "$root/tmp"
  chmod 1777 "$root/tmp"
  bash packaging/shipped.sh "$binaries/$binary" "$root/usr/bin/$binary"
  chmod 0755 "$root/usr/bin/$binary"
  cp LICENSE-APACHE LICENSE-MIT "$stage/third-party-notices.txt" "$root/usr/share/doc/spindle/"
  libraries "$binaries/$binary" "$root"
  for tool in "$@"; do
    path=$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v "$tool") || {
      echo "packaging/image.sh: found no $tool, expected the tools that the driver runs" >&2
      exit 2
    }
    copy "$path" "$root"
    libraries "$path" "$root"
  done
  sort -u "$root/packages" >"$root/usr/share/doc/packages"
  rm "$root/packages"
  chmod 0644 "$root"/usr/share/doc/packages "$root"/usr/share/doc/spindle/*
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

python3 packaging/notices.py "$stage" "$triple"
fill daemon spindle
install -m 0644 -D /etc/mke2fs.conf "$stage/driver/etc/mke2fs.conf"
fill driver spindle-csi blkid e2fsck mkfs.ext4 mkfs.xfs mount resize2fs umount xfs_growfs

container() { buildah --root "$stage/storage" --runroot "$stage/run" --storage-driver vfs "$@"; }
for target in daemon driver; do
  name=spindle
  [ "$target" = daemon ] || name=spindle-csi
  container build --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" --target "$target" \
    --tag "$name:$version" --file packaging/Containerfile "$stage" >/dev/null
  container push --quiet "$name:$version" "oci:$stage/$name-oci:$version"
  tar -C "$stage/$name-oci" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
    --numeric-owner --mode=a+r -cf "$out/$name.tar" .
  echo "$name:$version $(container inspect --type image --format '{{.FromImageDigest}}' \
    "$name:$version") $(du -sm --apparent-size "$stage/$target" | cut -f1) MiB"
done
