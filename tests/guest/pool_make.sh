# Runs in the guest, on /dev/vda: an ext4 file system with a tree of files, and what they add up to.
set -eu
disk=/dev/vda

fail() {
  echo "FAILED: $*"
  exit 1
}

/bin/mke2fs -q -F -t ext4 "$disk" || fail "mke2fs"
mount -t ext4 "$disk" /mnt || fail "mount"
# A tree as an archive has it: unpacked, not written file by file.
mkdir -p /tmp/tree
for a in 1 2 3 4 5 6; do
  for size in 1 4096 70001 1048577 5000000; do
    mkdir -p "/tmp/tree/$a"
    head -c "$size" /dev/urandom > "/tmp/tree/$a/$size"
  done
done
tar -cf - -C /tmp tree | tar -xf - -C /mnt || fail "unpack"
(cd /mnt && find tree -type f | sort | xargs sha256sum) > /mnt/sums
[ "$(wc -l < /mnt/sums)" -eq 30 ] || fail "files are missing"
echo "sums: $(sha256sum < /mnt/sums)"
sync
umount /mnt || fail "umount"
/bin/e2fsck -fn "$disk" || fail "e2fsck"
