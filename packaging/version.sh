#!/usr/bin/env bash
# Prints the version of a release; refuses one that the CHANGELOG does not date (behind a section
# `Unreleased`, if that is empty), and a tree with changes that are not committed.
#   packaging/version.sh [SNAPSHOT]
# With SNAPSHOT (any word) it prints the version of a tree between two releases: that of the last
# one, with the commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
if [ -n "${1:-}" ]; then
  commit=$(git rev-parse --short=12 HEAD)
  echo "$version+$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M --format=%cd).$commit"
  exit 0
fi
# The first heading, without an `Unreleased` that has nothing but blank lines below it.
heading=$(awk '/^## Unreleased$/ { open = $0; next }
  open && NF && !/^## / { print open; exit }
  /^## / { print; exit }' CHANGELOG.md)
if ! [[ $heading =~ ^"## $version: "(.* to )?[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]]; then
  echo "CHANGELOG.md: found \`$heading\`, expected \`## $version: YEAR-MONTH-DAY\`" >&2
  exit 2
fi
if [ -n "$(git status --porcelain)" ]; then
  echo "found changes that are not committed, expected none" >&2
  exit 2
fi
echo "$version"
