# Runs in the guest, on /dev/vda: data written while the daemon restarts is there, and no request
# fails.
# Then on /dev/nbd0, which nbd-client has over TCP.
set -eu
disk=/dev/vda

fail() {
  echo "FAILED: $*"
  dmesg | tail -5
  exit 1
}

/bin/mke2fs -q -F -t ext4 "$disk" || fail "mke2fs"
mount -t ext4 "$disk" /mnt || fail "mount"
head -c 8388608 /dev/urandom > /tmp/data
for restart in 1 2 3 4; do
  echo "@@RESTART $restart"
  for part in 1 2 3; do
    dd if=/tmp/data of="/mnt/$restart-$part" bs=64k conv=fsync 2> /dev/null ||
      fail "a write while the daemon was away"
  done
done
sum=$(sha256sum < /tmp/data)
umount /mnt || fail "umount"
/bin/e2fsck -fn "$disk" || fail "e2fsck"
echo 3 > /proc/sys/vm/drop_caches
mount -t ext4 "$disk" /mnt || fail "mount again"
for file in /mnt/*-*; do
  [ "$(sha256sum < "$file")" = "$sum" ] || fail "$file is another"
done
count=$(ls /mnt | grep -c -- -)
[ "$count" -eq 12 ] || fail "$count files instead of 12"
if dmesg | grep -i "I/O error"; then fail "the kernel saw an error"; fi
umount /mnt || fail "last umount"
echo "a pause: 12 files written over 4 restarts, no error"

# The kernel's own client reads on another connection what it wrote.
attach() {
  /bin/nbd-client 10.0.2.2 "$ARGS" /dev/nbd0 -N second > /tmp/attached 2>&1 ||
    { cat /tmp/attached; fail "nbd-client"; }
}
attach
dd if=/tmp/data of=/dev/nbd0 bs=64k oflag=direct conv=fsync 2> /dev/null ||
      fail "a write to nbd0"
/bin/nbd-client -d /dev/nbd0 > /dev/null || fail "nbd-client -d"
attach
back=$(head -c 8388608 /dev/nbd0 | sha256sum)
[ "$back" = "$sum" ] || fail "nbd0 holds something else"
/bin/nbd-client -d /dev/nbd0 > /dev/null || fail "nbd-client -d again"
echo "nbd-client: what was written is read"
