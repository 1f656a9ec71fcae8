#!/bin/busybox sh
# In the guest: see write_cache.sh.
set -eu
for name in scsi_common scsi_mod sd_mod virtio_scsi; do insmod "/bin/$name.ko"; done
tries=0
until [ -b /dev/sda ]; do
  tries=$((tries + 1))
  [ "$tries" -le 100 ] || { echo "FAILED: the guest has no SCSI disk"; exit 1; }
  sleep 0.1
done
cache=$(echo /sys/block/sda/device/scsi_disk/*/cache_type)
is() {
  found=$(cat "$cache")
  [ "$found" = "$1" ] || { echo "FAILED: $2: found $found, expected $1"; exit 1; }
  echo "$2: $found"
}
is "write back" "before"
# serve KEY: starts a daemon whose disk has this key, and waits until it listens.
serve() {
  cat > /tmp/plan.toml << P
[[disk]]
name = "d"
path = "/dev/sda"
$1

[[volume]]
name = "v"
disk = "d"
size = "32MiB"
P
  rm -f /tmp/words
  mkfifo /tmp/words
  spindle serve /tmp/plan.toml --listen unix:/tmp/nbd.sock \
    > /tmp/accounts 2> /tmp/words &
  daemon=$!
  exec 3< /tmp/words
  while read -r line <&3; do
    echo "spindle: $line"
    case $line in "listening on "*) break ;; esac
  done
  cat <&3 &
}
says() {
  spindle disk ls --socket /tmp/spindle-api.sock --json > /tmp/disks
  grep -q "$1" /tmp/disks || { cat /tmp/disks; echo "FAILED: it is not said: $1"; exit 1; }
}
stop() {
  kill -TERM "$daemon"
  wait "$daemon"
}

# It has no FUA: of flushes and the cache switched off, flushes cost less where nothing is known.
serve ''
is "write back" "while it is served, flushed"
says "a flush after forced writes"
stop
serve 'write_cache = "off"'
is "write through" "while it is served, off"
says "off while served"
stop
is "write back" "after"
