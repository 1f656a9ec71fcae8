#!/bin/sh
# The user and its directory; then the units, as they are now. A daemon that runs is restarted: its
# socket stays, so that clients wait and see no error.
set -e
# A removal that was refused changes nothing.
case "$1" in abort-*) exit 0 ;; esac
if command -v systemd-sysusers >/dev/null 2>&1; then
  systemd-sysusers spindle.conf
  # In a root without /proc it makes nothing.
  systemd-tmpfiles --create spindle.conf 2>/dev/null ||
    install -d -o spindle -g spindle -m 0700 /var/lib/spindle
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  systemctl try-restart spindle.service || true
fi
if [ ! -e /var/lib/spindle/spindle.toml ]; then
  echo "spindle: \`spindle init /var/lib/spindle/spindle.toml\` writes a config;" >&2
  echo "spindle: \`systemctl enable --now spindle.socket spindle.service\` serves it" >&2
fi
exit 0
