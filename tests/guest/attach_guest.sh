# Runs in the guest: a volume of the host's daemon is attached, used while the daemon restarts,
# grown and detached, and what cannot be done is refused in one line. $ARGS: the daemon, and how
# often it restarts.
set -eu
. /bin/checks.sh
server=${ARGS% *}
restarts=${ARGS#* }

fail() {
  echo "FAILED: $*"
  cat /tmp/supervisor 2> /dev/null || true
  dmesg | tail -20
  exit 1
}

supervise() {
  rm -f /tmp/device
  mkfifo /tmp/device
  spindle attach --supervise data --server "$server" > /tmp/device 2>> /tmp/supervisor &
  supervisor=$!
  read -r device < /tmp/device || fail "not attached"
}

connections() { grep -c 'is connected' /tmp/supervisor || true; }
has_more_connections() { [ "$(connections)" -gt "$1" ]; }
has_bytes() { [ "$(blockdev --getsize64 "$device")" -eq "$1" ]; }

rmmod nbd
refused 'modprobe nbd' spindle attach data --server "$server"
modprobe nbd
refused 'found no volume "absent"' spindle attach absent --server "$server"
refused 'found no server at' spindle attach data --server "${server%:*}:1"
refused 'beyond the numbers' spindle attach data /dev/nbd99999 --server "$server"
refused 'expected root' unshare -U spindle attach data --server "$server"
refused 'expected one of the volumes' spindle detach data
refused 'found no /dev/nbd999' spindle detach /dev/nbd999
refused 'nothing attached to /dev/nbd0' spindle detach /dev/nbd0
[ "$(spindle attach --list --json)" = '{"schema":1,"attached":[]}' ] || fail "some is attached"

supervise
has_bytes 134217728 || fail "another size"
[ "$(cat "/sys/block/${device#/dev/}/backend")" = "spindle:data@$server" ] || fail "the backend"
spindle attach --list > /tmp/list
grep -q "$device.*data.*$server" /tmp/list || fail "the list: $(cat /tmp/list)"
refused "attached as $device already" spindle attach data --server "$server"
refused 'attached to volume "data"' spindle attach second "$device" --server "$server"
nbd-client -N second "${server%:*}" "${server#*:}" /dev/nbd5 > /dev/null || fail "nbd-client"
refused 'connected by another program' spindle attach second /dev/nbd5 --server "$server"
refused 'connected by another program' spindle detach /dev/nbd5
nbd-client -d /dev/nbd5 > /dev/null || fail "nbd-client -d"

/bin/mke2fs -q -F -t ext4 "$device" || fail "mke2fs"
mount -t ext4 "$device" /mnt || fail "mount"
refused 'mounted on /mnt' spindle detach data
refused 'mounted on /mnt' spindle detach "$device"

# Random writes that are verified, and files whose sums are compared, all the time.
start_writes
head -c 2097152 /dev/urandom > /tmp/data
sum=$(sha256sum < /tmp/data)
restart=0
while [ "$restart" -lt "$restarts" ]; do
  restart=$((restart + 1))
  before=$(connections)
  echo "@@RESTART $restart"
  for part in 1 2 3; do
    dd if=/tmp/data of="/mnt/$part" bs=64k conv=fsync 2> /dev/null || fail "a write"
  done
  if [ "$restart" -eq 2 ]; then
    # Another supervisor takes the device over, whose connections may have ended meanwhile.
    kill -KILL "$supervisor"
    wait "$supervisor" || true
    supervise
  fi
  awaited 60 has_more_connections "$before"
  for part in 1 2 3; do
    [ "$(sha256sum < "/mnt/$part")" = "$sum" ] || fail "$part is another"
  done
  has_verified
done
stop_writes

echo "@@GROW"
awaited 60 has_bytes 201326592
/bin/resize2fs "$device" > /tmp/resized 2>&1 || fail "resize2fs: $(cat /tmp/resized)"
head -c 150000000 /dev/urandom > /mnt/more || fail "the file system has not grown"
more=$(sha256sum < /mnt/more)
sync
umount /mnt || fail "umount"
/bin/e2fsck -fn "$device" > /tmp/checked 2>&1 || fail "e2fsck: $(cat /tmp/checked)"
echo 3 > /proc/sys/vm/drop_caches
mount -t ext4 "$device" /mnt || fail "mount again"
[ "$(sha256sum < /mnt/more)" = "$more" ] || fail "what was written after the growth is another"
for part in 1 2 3; do
  [ "$(sha256sum < "/mnt/$part")" = "$sum" ] || fail "$part is another"
done
umount /mnt || fail "last umount"
spindle detach data > /tmp/out || fail "detach"
ended=0
wait "$supervisor" || ended=$?
[ "$ended" -eq 0 ] || fail "the supervisor ended with $ended"
[ ! -e "/sys/block/${device#/dev/}/pid" ] || fail "the device is still connected"
if dmesg | grep -iE 'I/O error|EXT4-fs (error|warning)'; then fail "the kernel saw an error"; fi
echo "attached: $(wc -l < /tmp/rounds) verified rounds over $restarts restarts, grown, no error"

device=$(spindle attach second /dev/nbd3 --server "$server" --connections 2 2> /dev/null)
[ "$device" = /dev/nbd3 ] || fail "$device"
dd if=/tmp/data of="$device" bs=64k oflag=direct conv=fsync 2> /dev/null || fail "write to $device"
[ "$(head -c 2097152 "$device" | sha256sum)" = "$sum" ] || fail "$device holds something else"
mkswap "$device" > /dev/null
swapon "$device" || fail "swapon"
refused 'in use as swap space' spindle detach second
swapoff "$device"
rm "$device"
refused "found no node $device" spindle detach second
numbers=$(cat "/sys/block/${device#/dev/}/dev")
mknod "$device" b "${numbers%:*}" "${numbers#*:}" || fail "mknod"
spindle detach "$device" > /dev/null || fail "detach $device"
echo "two connections: what was written is read"

# A drive of the library as a device, which is not taken away while it is mounted.
rm -f /tmp/device
mkfifo /tmp/device
spindle emulate hgst-7k8 --size 64MiB --device /dev/nbd6 > /tmp/device 2> /tmp/emulated &
emulator=$!
read -r device < /tmp/device || fail "not emulated: $(cat /tmp/emulated)"
has_bytes 67108864 || fail "an emulated drive of another size"
[ "$(cat "/sys/block/${device#/dev/}/queue/rotational")" = 1 ] || fail "it does not rotate"
/bin/mke2fs -q -F -t ext4 "$device" || fail "mke2fs on an emulated drive"
mount -t ext4 "$device" /mnt || fail "mount an emulated drive"
cp /tmp/data /mnt/data
kill -TERM "$emulator"
awaited 60 grep -q 'mounted on /mnt' /tmp/emulated
[ "$(sha256sum < /mnt/data)" = "$sum" ] || fail "an emulated drive holds something else"
umount /mnt || fail "umount an emulated drive"
kill -TERM "$emulator"
ended=0
wait "$emulator" || ended=$?
[ "$ended" -eq 0 ] || fail "emulate ended with $ended: $(cat /tmp/emulated)"
[ ! -e "/sys/block/${device#/dev/}/pid" ] || fail "the emulated device is still connected"
echo "an emulated drive: written and read; kept while mounted"

# A server that is gone for good: the device is not waited for, and goes by force.
spindle emulate hgst-7k8 --size 64MiB --device /dev/nbd6 > /tmp/device 2> /tmp/emulated &
emulator=$!
read -r device < /tmp/device || fail "not emulated: $(cat /tmp/emulated)"
refused 'expected a free device' spindle emulate hgst-7k8 --size 64MiB --device /dev/nbd6
kill -KILL "$emulator"
wait "$emulator" || true
refused 'lose that with --force' spindle detach "$device"
spindle detach --force "$device" > /dev/null || fail "detach --force"
[ ! -e "/sys/block/${device#/dev/}/pid" ] || fail "a device without a server is still connected"
refused 'needs neither' unshare -U spindle emulate hgst-7k8 --size 64MiB --device /dev/nbd6
echo "a device whose server is gone: refused with the remedy, and removed by force"
