#!/usr/bin/env bash
# The page's tests, in a headless Chromium (CHROMIUM) that playwright-core drives.
set -euo pipefail
cd "$(dirname "$0")"
for program in "${CHROMIUM:-chromium}" node npm fio nbdinfo qemu-img; do
  if ! command -v "$program" >/dev/null; then
    echo "SKIPPED: the page's tests: there is no $program"
    exit 0
  fi
done
if ! npm ci --ignore-scripts --no-audit --no-fund --silent; then
  echo "SKIPPED: the page's tests: npm has not the packages of tests/page/package-lock.json"
  exit 0
fi
exec node --test --test-concurrency=1 page.test.mjs
