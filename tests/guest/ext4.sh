# Runs in the guest, on /dev/vda: an ext4 file system keeps a tree of files over an unmount and is
# found clean.
set -eu
disk=/dev/vda

fail() {
  echo "FAILED: $*"
  exit 1
}

/bin/mke2fs -q -F -t ext4 "$disk" || fail "mke2fs"
mount -t ext4 "$disk" /mnt || fail "mount"

# Files from nothing to megabytes, in directories three deep; some are overwritten, some removed
# again.
for a in 1 2 3 4; do
  for b in 1 2 3 4; do
    dir=/mnt/tree/$a/$b
    mkdir -p "$dir"
    : > "$dir/empty"
    for size in 1 511 512 4096 70001 1048577; do
      head -c "$size" /dev/urandom > "$dir/$size"
    done
    head -c 9000 /dev/urandom > "$dir/512"
    rm "$dir/511"
  done
done
head -c 33554432 /dev/urandom > /mnt/tree/large
(cd /mnt && find tree -type f | sort | xargs sha256sum) > /tmp/sums
count=$(wc -l < /tmp/sums)
[ "$count" -eq 97 ] || fail "$count files instead of 97"

sync
umount /mnt || fail "umount"
/bin/e2fsck -fn "$disk" || fail "e2fsck found errors after the first unmount"

# What is read now comes from the disk, not from memory.
echo 3 > /proc/sys/vm/drop_caches
mount -t ext4 "$disk" /mnt || fail "mount again"
(cd /mnt && sha256sum -c /tmp/sums) > /tmp/checked ||
  { grep -v ': OK$' /tmp/checked; fail "checksums"; }
checked=$(grep -c ': OK$' /tmp/checked)
[ "$checked" -eq "$count" ] || fail "$checked files checked instead of $count"

# Deleted files are trimmed on the volume; the others stay.
rm /mnt/tree/large
grep -v ' tree/large$' /tmp/sums > /tmp/rest
fstrim /mnt || fail "fstrim"
umount /mnt || fail "second umount"
/bin/e2fsck -fn "$disk" || fail "e2fsck found errors after the trim"
mount -t ext4 "$disk" /mnt || fail "mount a third time"
(cd /mnt && sha256sum -c /tmp/rest) > /tmp/checked ||
  { grep -v ': OK$' /tmp/checked; fail "checksums after the trim"; }
umount /mnt || fail "third umount"
echo "ext4: $count files kept, clean three times over"
