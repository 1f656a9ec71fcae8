#!/bin/sh
# Leaves disks and data alone: no package made them.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
if [ "$1" = purge ] || [ "$1" = 0 ]; then
  if [ -d /var/lib/spindle ]; then
    echo "spindle: /var/lib/spindle, its config and its data are left as they are, as are all" >&2
    echo "spindle: disks that were served; remove them by hand if they are not needed" >&2
  fi
fi
exit 0
