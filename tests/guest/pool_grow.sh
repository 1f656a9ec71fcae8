# Runs in the guest, on /dev/vda: the file system that was made on a smaller disk grows, and has
# kept its files.
set -eu
disk=/dev/vda

fail() {
  echo "FAILED: $*"
  exit 1
}

/bin/e2fsck -fp "$disk" || fail "e2fsck before"
/bin/resize2fs "$disk" || fail "resize2fs"
mount -t ext4 "$disk" /mnt || fail "mount"
blocks=$(df -m /mnt | awk 'NR == 2 { print $2 }')
[ "$blocks" -gt 800 ] || fail "$blocks MiB after growing"
(cd /mnt && sha256sum -c sums) > /tmp/checked || { grep -v ': OK$' /tmp/checked; fail "checksums"; }
[ "$(grep -c ': OK$' /tmp/checked)" -eq 30 ] || fail "files are missing"
# Into the new half, while the volume is moved.
head -c 300000000 /dev/zero | tr '\0' 'x' > /mnt/large
sync
[ "$(tr -d 'x' < /mnt/large | wc -c)" -eq 0 ] || fail "what was written is something else"
rm /mnt/large
echo "sums: $(sha256sum < /mnt/sums)"
umount /mnt || fail "umount"
/bin/e2fsck -fn "$disk" || fail "e2fsck"
