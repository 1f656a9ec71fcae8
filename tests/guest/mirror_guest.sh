# Runs in the guest, on /dev/vda: files that are written while a disk of the mirror is lost are
# there, and no request fails. ARGS=again: what an earlier guest wrote is there.
set -eu
disk=/dev/vda

fail() {
  echo "FAILED: $*"
  dmesg | tail -5
  exit 1
}
sums() {
  mount -t ext4 "$disk" /mnt || fail "mount again"
  echo "sums: $(cat /mnt/* | sha256sum)"
  umount /mnt || fail "last umount"
  if dmesg | grep -iE 'I/O error|EXT4-fs (error|warning)'; then fail "the kernel saw an error"; fi
}

if [ "${ARGS:-}" = again ]; then
  /bin/e2fsck -fn "$disk" > /dev/null || fail "e2fsck"
  sums
  exit 0
fi
/bin/mke2fs -q -F -t ext4 "$disk" || fail "mke2fs"
mount -t ext4 "$disk" /mnt || fail "mount"
head -c 8388608 /dev/urandom > /tmp/data
for part in 1 2; do
  for file in $(seq 20); do
    dd if=/tmp/data of="/mnt/$part-$file" bs=64k conv=fsync 2> /dev/null || fail "a write"
  done
  echo "@@WRITTEN $part"
done
rmdir /mnt/lost+found
umount /mnt || fail "umount"
/bin/e2fsck -fn "$disk" > /dev/null || fail "e2fsck"
echo 3 > /proc/sys/vm/drop_caches
sums
