# Runs in the guest, on /dev/vda, a vhost-user-blk device: a file system is written to while the
# daemon restarts, and grown. $ARGS: how often the daemon restarts.
set -eu
. /bin/checks.sh
restarts=$ARGS
disk=/dev/vda

fail() {
  echo "FAILED: $*"
  dmesg | tail -20
  exit 1
}

has_bytes() { [ "$(blockdev --getsize64 "$disk")" -eq "$1" ]; }

awaited 10 [ -b "$disk" ]
has_bytes 134217728 || fail "another size"
[ "$(cat /sys/block/vda/serial)" = data ] || fail "the serial: $(cat /sys/block/vda/serial)"
[ "$(ls /sys/block/vda/mq | wc -l)" -eq "$(grep -c ^processor /proc/cpuinfo)" ] || fail "queues"
[ "$(cat /sys/block/vda/queue/physical_block_size)" = 4096 ] || fail "the physical block"
[ "$(cat /sys/block/vda/queue/write_cache)" = 'write back' ] || fail "the write cache"

/bin/mke2fs -q -F -t ext4 "$disk" || fail "mke2fs"
mount -t ext4 "$disk" /mnt || fail "mount"

# Random writes that are verified, and files whose sums are compared, all the time.
start_writes
head -c 2097152 /dev/urandom > /tmp/data
sum=$(sha256sum < /tmp/data)
restart=0
while [ "$restart" -lt "$restarts" ]; do
  restart=$((restart + 1))
  echo "@@RESTART $restart"
  for part in 1 2 3 4 5 6; do
    dd if=/tmp/data of="/mnt/$part" bs=64k conv=fsync 2> /dev/null || fail "a write"
  done
  echo 3 > /proc/sys/vm/drop_caches
  for part in 1 2 3 4 5 6; do
    [ "$(sha256sum < "/mnt/$part")" = "$sum" ] || fail "$part is another"
  done
  has_verified
done
stop_writes

rm -f /mnt/verified
fstrim /mnt || fail "fstrim"

echo "@@GROW"
awaited 60 has_bytes 201326592
/bin/resize2fs "$disk" > /tmp/resized 2>&1 || fail "resize2fs: $(cat /tmp/resized)"
head -c 150000000 /dev/urandom > /mnt/more || fail "the file system has not grown"
more=$(sha256sum < /mnt/more)
sync
umount /mnt || fail "umount"
/bin/e2fsck -fn "$disk" > /tmp/checked 2>&1 || fail "e2fsck: $(cat /tmp/checked)"
echo 3 > /proc/sys/vm/drop_caches
mount -t ext4 "$disk" /mnt || fail "mount again"
[ "$(sha256sum < /mnt/more)" = "$more" ] || fail "what was written after the growth is another"
for part in 1 2 3 4 5 6; do
  [ "$(sha256sum < "/mnt/$part")" = "$sum" ] || fail "$part is another"
done
umount /mnt || fail "last umount"
if dmesg | grep -iE 'I/O error|EXT4-fs (error|warning)'; then fail "the kernel saw an error"; fi
echo "vhost-user: $(wc -l < /tmp/rounds) verified rounds over $restarts restarts, grown, no error"
