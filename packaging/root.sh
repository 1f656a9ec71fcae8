#!/usr/bin/env bash
# Makes the archive of a clean Debian root with systemd and clients, for the packages' tests.
#   packaging/root.sh ARCHIVE
# RELEASE is the release's name (this machine's). Needs root and mmdebstrap.
set -euo pipefail
release=${RELEASE:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)}
mmdebstrap --quiet --variant=minbase \
  --include=systemd,systemd-sysv,udev,kmod,libnbd-bin,fio,e2fsprogs,curl "$release" "$1"
