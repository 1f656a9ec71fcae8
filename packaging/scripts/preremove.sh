#!/bin/sh
# Stops the daemon when the package goes, not when another version takes its place: $1 is `remove`
# (dpkg) or 0 (rpm) then.
set -e
if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
  systemctl disable --now spindle.socket spindle.service || true
fi
exit 0
