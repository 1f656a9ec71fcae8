# Runs in the guest: the daemon, a volume as a ublk device, a file system on it. The daemon is
# stopped, killed and replaced meanwhile. $ARGS: how often it ends, and whether the shares of two
# fronts are measured (1).
set -eu
. /bin/checks.sh
restarts=${ARGS% *}
fronts=${ARGS#* }
config=/tmp/plan.toml
api=/tmp/spindle-api.sock

fail() {
  echo "FAILED: $*"
  tail -n 20 /tmp/daemon 2> /dev/null || true
  # What a daemon that does not serve waits for.
  for task in "/proc/${daemon:-0}"/task/*; do
    [ -e "$task" ] || continue
    echo "$(cat "$task/comm"): $(cut -d ' ' -f 3,14,15 "$task/stat") in $(cat "$task/wchan")"
    cat "$task/stack" 2> /dev/null || true
  done
  df /tmp | tail -1
  free | head -2
  dmesg | tail -20
  exit 1
}

if ! modinfo ublk_drv > /dev/null 2>&1; then
  echo "SKIPPED: ublk: this kernel ($(uname -r)) has no ublk driver: KERNEL=6.12"
  exit 0
fi

cat > "$config" <<'TOML'
[[disk]]
name = "d0"
drive = "hgst-7k8"
write_buffer = "auto"
backing = "disk.img"

[[volume]]
name = "data"
disk = "d0"
size = "128MiB"
reserve = "50%"

[[volume]]
name = "second"
disk = "d0"
size = "64MiB"
TOML

# start [PROGRAM]: a daemon, until it serves.
start() {
  rm -f /tmp/words
  mkfifo /tmp/words
  "${1:-spindle}" serve "$config" --listen unix:/tmp/nbd.sock > /dev/null 2> /tmp/words &
  daemon=$!
  (while read -r line; do
    echo "$line" >> /tmp/daemon
    case $line in "second: "*nbd+unix:*) touch /tmp/serves ;; esac
  done < /tmp/words) &
  awaited 60 [ -e /tmp/serves ]
  rm /tmp/serves
}
stop() {
  kill "-$1" "$daemon"
  wait "$daemon" || [ "$1" = KILL ] || fail "the daemon ended badly"
}
state() { cat "/sys/block/${device#/dev/}/size"; }

# Without the driver, and without the right.
rmmod ublk_drv
start
refused 'modprobe ublk_drv' spindle attach --ublk data --socket "$api"
grep -q ublk "$config" && fail "a device that could not be made is in the config"
stop TERM
echo "ublk = true" >> "$config"
refused 'modprobe ublk_drv' spindle serve "$config" --listen unix:/tmp/nbd.sock
modprobe ublk_drv
refused 'CAP_SYS_ADMIN' unshare -U spindle serve "$config" --listen unix:/tmp/nbd.sock
sed -i '/^ublk/d' "$config"

start
refused 'one of the volumes' spindle attach --ublk absent --socket "$api"
refused 'found no /dev/ublkb7' spindle detach /dev/ublkb7 --socket "$api"
device=$(spindle attach --ublk data --socket "$api")
[ "$device" = /dev/ublkb0 ] || fail "$device"
[ "$(spindle attach --ublk data --socket "$api")" = "$device" ] || fail "another device"
grep -q '^ublk = true' "$config" || fail "the config does not say it"
echo 2 > /proc/sys/kernel/io_uring_disabled
refused 'io_uring_disabled=0' spindle detach /dev/ublkb7 --socket "$api"
echo 0 > /proc/sys/kernel/io_uring_disabled
[ "$(blockdev --getsize64 "$device")" -eq 134217728 ] || fail "another size"
[ "$(cat "/sys/block/${device#/dev/}/queue/rotational")" = 1 ] || fail "it does not rotate"
[ "$(cat "/sys/block/${device#/dev/}/queue/write_cache")" = "write back" ] || fail "no flushes"
spindle attach --list --socket "$api" > /tmp/list
grep -q "$device.*data.*ublk" /tmp/list || fail "the list: $(cat /tmp/list)"

/bin/mke2fs -q -F -t ext4 "$device" || fail "mke2fs"
mount -t ext4 "$device" /mnt || fail "mount"
refused 'in use' spindle detach data --socket "$api"
refused 'in use' spindle detach "$device" --socket "$api"
code=0
spindle vol rm data --socket "$api" > /tmp/out 2> /tmp/err || code=$?
[ "$code" -eq 1 ] || fail "a volume with a device is removed: $code"
grep -q "detach $device" /tmp/err || fail "$(cat /tmp/err)"

# Random writes that are verified, and files whose sums are compared, all the time.
start_writes
head -c 2097152 /dev/urandom > /tmp/data
sum=$(sha256sum < /tmp/data)
restart=0
program=spindle
while [ "$restart" -lt "$restarts" ]; do
  restart=$((restart + 1))
  for part in 1 2 3; do
    dd if=/tmp/data of="/mnt/$part" bs=64k conv=fsync 2> /dev/null || fail "a write"
  done &
  parts=$!
  case $((restart % 3)) in
    0) stop TERM ;;
    1) stop KILL ;;
    # An upgrade: the next daemon is another build.
    2)
      stop TERM
      if [ "$program" = spindle ]; then program=spindle-other; else program=spindle; fi
      ;;
  esac
  start "$program"
  wait "$parts" || fail "a write over restart $restart"
  for part in 1 2 3; do
    [ "$(sha256sum < "/mnt/$part")" = "$sum" ] || fail "$part is another"
  done
  has_verified
done
stop_writes

umount /mnt || fail "umount"
/bin/e2fsck -fn "$device" > /tmp/checked 2>&1 || fail "e2fsck: $(cat /tmp/checked)"
echo 3 > /proc/sys/vm/drop_caches
mount -t ext4 "$device" /mnt || fail "mount again"
for part in 1 2 3; do
  [ "$(sha256sum < "/mnt/$part")" = "$sum" ] || fail "$part is another"
done
fstrim /mnt 2> /dev/null || true
umount /mnt || fail "last umount"

# A volume that has grown: the device too where the kernel can, else the daemon says so.
spindle vol resize second 96MiB --socket "$api" > /dev/null || fail "resize"
other=$(spindle attach --ublk second --socket "$api")
spindle vol resize second 128MiB --socket "$api" > /dev/null || fail "resize of a device"
if [ "$(blockdev --getsize64 "$other")" -ne 134217728 ]; then
  awaited 10 grep -q "$other keeps 96MiB" /tmp/daemon
  echo "SKIPPED: a device that grows in use: this kernel's ublk driver cannot resize"
fi
spindle detach second --socket "$api" > /dev/null || fail "detach second"
[ "$(spindle attach --ublk second --socket "$api")" = "$other" ] || fail "another device"
[ "$(blockdev --getsize64 "$other")" -eq 134217728 ] || fail "a device of the old size"

# A device whose daemon is gone is removed without one.
stop KILL
awaited 20 spindle detach "$other" --socket "$api" > /tmp/out
[ ! -e "$other" ] || fail "$other is there still"
start "$program"
[ -e "$other" ] || fail "a daemon does not make the device that its config asks for"
spindle detach second --socket "$api" > /dev/null || fail "detach second again"
spindle detach "$device" --socket "$api" > /tmp/out || fail "detach"
[ ! -e "$device" ] || fail "the device is there still"
grep -q ublk "$config" && fail "the config keeps a device that is detached"
stop TERM
if dmesg | grep -iE 'I/O error|EXT4-fs (error|warning)'; then fail "the kernel saw an error"; fi
echo "ublk: $(wc -l < /tmp/rounds) verified rounds over $restarts ends of the daemon, no error"

# A drive of the library as a device, which is not taken away while it is mounted.
rm -f /tmp/device
mkfifo /tmp/device
spindle emulate hgst-7k8 --size 64MiB > /tmp/device 2> /tmp/emulated &
emulator=$!
read -r device < /tmp/device || fail "not emulated: $(cat /tmp/emulated)"
case $device in /dev/ublkb*) ;; *) fail "emulated by another driver: $device" ;; esac
[ "$(blockdev --getsize64 "$device")" -eq 67108864 ] || fail "an emulated drive of another size"
/bin/mke2fs -q -F -t ext4 "$device" || fail "mke2fs on an emulated drive"
mount -t ext4 "$device" /mnt || fail "mount an emulated drive"
cp /tmp/data /mnt/data
kill -TERM "$emulator"
awaited 60 grep -q 'in use' /tmp/emulated
[ "$(sha256sum < /mnt/data)" = "$sum" ] || fail "an emulated drive holds something else"
umount /mnt || fail "umount an emulated drive"
kill -TERM "$emulator"
ended=0
wait "$emulator" || ended=$?
[ "$ended" -eq 0 ] || fail "emulate ended with $ended: $(cat /tmp/emulated)"
[ ! -e "$device" ] || fail "the emulated device is there still"
# One that is killed takes its device along; the next one cleans up.
for how in KILL TERM; do
  spindle emulate hgst-7k8 --size 64MiB > /tmp/device 2> /tmp/emulated &
  emulator=$!
  read -r device < /tmp/device || fail "not emulated: $(cat /tmp/emulated)"
  kill "-$how" "$emulator"
  wait "$emulator" || [ "$how" = KILL ] || fail "emulate ended badly"
  awaited 20 [ ! -e "$device" ]
done
echo "an emulated drive: written and read; kept while mounted; gone with its process"

[ "$fronts" = 1 ] || exit 0
# Two volumes of one disk at 50 % each, one by the kernel's NBD driver, one by ublk.
cat > "$config" <<'TOML'
[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "ram"

[[volume]]
name = "by-nbd"
disk = "d0"
size = "256MiB"
reserve = "50%"

[[volume]]
name = "second"
disk = "d0"
size = "256MiB"
reserve = "50%"
ublk = true
TOML
# What both have had of the disk at one instant, in the order of the config.
disk_times() {
  spindle vol ls --socket "$api" --json | grep -o '"disk_time_s": *[0-9.]*' | sed 's/.*: *//' |
    tr '\n' ' '
}
start
by_nbd=$(spindle attach by-nbd --server unix:/tmp/nbd.sock 2> /tmp/attach) ||
  fail "attach by-nbd: $(cat /tmp/attach)"
by_ublk=/dev/ublkb0
[ -e "$by_ublk" ] || fail "no device for a volume of the config"
load() {
  fio --name=load --filename="$1" --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=8 \
    --time_based --runtime=30 > /dev/null 2>&1
}
load "$by_nbd" &
first=$!
load "$by_ublk" &
sleep 5
before=$(disk_times)
sleep 20
after=$(disk_times)
wait "$first"
wait "$!" || true
echo "$before $after" | awk '{ a = $3 - $1; b = $4 - $2; s = 100 * a / (a + b)
  printf "two fronts at 50/50: %.1f %% by NBD, %.1f %% by ublk, of %.1f s\n", s, 100 - s, a + b
  exit !(a + b > 10 && s > 48 && s < 52) }' || fail "the shares of two fronts: $before $after"
spindle detach by-nbd > /dev/null || fail "detach by-nbd"
spindle detach "$by_ublk" --socket "$api" > /dev/null || fail "detach $by_ublk"
stop TERM
