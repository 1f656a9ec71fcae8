#!/usr/bin/env bash
# Packages the binaries: OUT/spindle*.deb, .rpm, the notices of what is linked into them, their
# parts (CycloneDX), and checksums. The same tree and binaries give the same bytes.
#   packaging/build.sh NFPM BINARIES OUT
# BINARIES holds `spindle`, `spindle-lab` and `spindle-csi`; man pages and completions are in
# target/docs. From the environment, if it is set there: PACKAGE_VERSION, MAINTAINER,
# SOURCE_DATE_EPOCH (else the time of the last commit, else of the CHANGELOG's last entry), TRIPLE
# (else the compiler's own).
set -euo pipefail
export LC_ALL=C TZ=UTC
here=$(dirname "${BASH_SOURCE[0]}")
nfpm=$(realpath "$1")
binaries=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
cd "$here/.."
docs=${CARGO_TARGET_DIR:-target}/docs
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
export VERSION=${PACKAGE_VERSION:-$version}
export MAINTAINER=${MAINTAINER:-Spindle authors <spindle@example.org>}
triple=${TRIPLE:-$(rustc -vV | sed -n 's/^host: //p')}
case $triple in
x86_64-*) ARCH=amd64 ;;
aarch64-*) ARCH=arm64 ;;
*) echo "packaging: found $triple, expected x86_64 or aarch64" >&2; exit 2 ;;
esac
export ARCH
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || {
    day=$(grep -oE '^##+ .*2[0-9]{3}-[0-9]{2}-[0-9]{2}' CHANGELOG.md | grep -oE '2[0-9-]{9}$' |
      sort | tail -n 1)
    SOURCE_DATE_EPOCH=$(date -u -d "$day" +%s)
  }
fi
export SOURCE_DATE_EPOCH

STAGE=$out/stage
export STAGE
rm -rf "$STAGE" "$out"/spindle* "$out"/third-party-notices.txt "$out"/SHA256SUMS
python3 packaging/notices.py "$out" "$triple"

# document NAME: its binary without symbols, and what Debian's policy asks for.
document() {
  local of=$STAGE/$1 page
  mkdir -p "$of/doc"
  bash packaging/shipped.sh "$binaries/$1" "$of/$1"
  {
    printf 'Spindle\n\nLicence: Apache-2.0 OR MIT, at your option.\n'
    printf 'Apache-2.0: /usr/share/common-licenses/Apache-2.0, and here LICENSE-APACHE.\n'
    printf 'Crates that are linked into the binary: third-party-notices.gz. MIT:\n\n'
    cat LICENSE-MIT
  } >"$of/doc/copyright"
  cp LICENSE-APACHE "$of/doc/"
  printf '%s (%s) stable; urgency=medium\n\n  * CHANGELOG.md.gz has the changes.\n\n -- %s  %s\n' \
    "$1" "$VERSION" "$MAINTAINER" "$(date -uRd "@$SOURCE_DATE_EPOCH")" |
    gzip -9n >"$of/doc/changelog.gz"
  gzip -9n <CHANGELOG.md >"$of/doc/CHANGELOG.md.gz"
  gzip -9n <"$out/third-party-notices.txt" >"$of/doc/third-party-notices.gz"
  cp "$out/$1.cdx.json" "$of/doc/"
}
# pages NAME: its man pages and completions.
pages() {
  local of=$STAGE/$1 page
  mkdir -p "$of/man1" "$of/completions"
  for page in "$docs/man/$1".1 "$docs/man/$1"-*.1; do
    # The pages of `spindle-lab` begin with the name of `spindle` too.
    [ "$1" = spindle ] && [[ $(basename "$page") == spindle-lab* ]] && continue
    gzip -9n <"$page" >"$of/man1/$(basename "$page").gz"
  done
  cp "$docs/completions/$1".{bash,zsh,fish} "$of/completions/"
}
names=(spindle spindle-lab spindle-csi)
for name in "${names[@]}"; do document "$name"; done
pages spindle
pages spindle-lab
mkdir -p "$STAGE/spindle/man5" "$STAGE/spindle/doc/examples"
gzip -9n <"$docs/man/spindle.toml.5" >"$STAGE/spindle/man5/spindle.toml.5.gz"
cp README.md "$STAGE/spindle/doc/"
cp -r examples/. contrib/grafana-dashboard.json contrib/spindle-ublk.conf \
  "$STAGE/spindle/doc/examples/"
find "$STAGE" -type d -exec chmod 0755 {} + -o -type f -exec chmod 0644 {} +
for name in "${names[@]}"; do chmod 0755 "$STAGE/$name/$name"; done
find "$STAGE" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

# The oldest C library with every symbol that the binaries use.
GLIBC=$(for name in "${names[@]}"; do objdump -T "$STAGE/$name/$name"; done |
  grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
export GLIBC=${GLIBC#GLIBC_}

for name in "${names[@]}"; do
  for kind in deb rpm; do
    "$nfpm" package --config "packaging/$name.yaml" --packager "$kind" --target "$out/" >&2
  done
done
rm -rf "$STAGE"
cd "$out"
sha256sum spindle* third-party-notices.txt >SHA256SUMS
cat SHA256SUMS
