#!/usr/bin/env bash
# Adds to the packages in a directory what else belongs to a release: the static build, the source,
# and checksums of all. The same tree and binaries give the same bytes.
#   packaging/release.sh STATIC_BINARY DIRECTORY VERSION
set -euo pipefail
export LC_ALL=C TZ=UTC
binary=$(realpath "$1")
out=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$3
epoch=$(git log -1 --format=%ct)

# archive NAME DIRECTORY: a directory as an archive whose entries have the commit's time.
archive() {
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -C "$2" -cf - "$1" |
    gzip -9n >"$out/$1.tar.gz"
}
rm -f "$out"/spindle-*.tar.gz
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
name=spindle-$version-$(uname -m)-static
mkdir "$stage/$name"
bash packaging/shipped.sh "$binary" "$stage/$name/spindle"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$stage/$name/"
cp "$out/third-party-notices.txt" "$stage/$name/"
cp contrib/spindle.service contrib/spindle.socket "contrib/spindle-attach@.service" "$stage/$name/"
archive "$name" "$stage"
git archive --format=tar --prefix="spindle-$version/" HEAD | gzip -9n \
  >"$out/spindle-$version-source.tar.gz"
(cd "$out" && sha256sum spindle* third-party-notices.txt >SHA256SUMS && cat SHA256SUMS)
