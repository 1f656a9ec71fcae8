#!/bin/sh
# Stops the daemon when the package goes, not when another version takes its place: $1 is `remove`
# (dpkg) or 0 (rpm) then. While a volume is attached the package stays: without the daemon, what
# uses the device would wait for ever.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
  attached=$(spindle attach --list 2>/dev/null | grep -o '/dev/[a-z0-9]*' | tr '\n' ' ' || true)
  if [ -n "$attached" ]; then
    echo "spindle: found attached volumes: $attached" >&2
    echo "spindle: \`spindle detach DEVICE\` detaches each; then the package can be removed" >&2
    exit 1
  fi
  if [ -d /run/systemd/system ]; then
    # Of a template: all of its instances.
    systemctl disable spindle-attach@.service || true
    systemctl disable --now spindle.socket spindle.service || true
  fi
fi
exit 0
