# Runs in the guest, on /dev/vda: a recorder writes 1.43 MB/s through ext4 and its page cache, with
# an fsync every 10 s. ARGS: seconds. Says when it begins and ends, and "@@RESULT late-in-ms
# longest-fsync-in-ms": by how much the writer ended behind its rate, and how long it was held up.
set -eu
disk=/dev/vda
rate=1430000

fail() {
  echo "FAILED: $*"
  exit 1
}

/bin/mke2fs -q -F -t ext4 "$disk" || fail "mke2fs"
mount -t ext4 "$disk" /mnt || fail "mount"
sync
block=65536
each=$((rate * 10 / block))
# Whole intervals between two calls of fsync, none of them at the end.
count=$((rate * ARGS / block))
echo "@@BEGIN"
fio --name=writer --filename=/mnt/recording --ioengine=psync --rw=write --bs="$block" \
  --size=$((count * block)) --rate="$rate" --fsync="$each" --fallocate=none \
  --verify=crc32c --do_verify=0 --output-format=json > /tmp/json || fail "fio"
echo "@@END"
# The first such figure of a part of fio's report.
figure() {
  sed -n "/\"$1\" : {/,\$p" /tmp/json | sed -n "s/.*\"$2\" : \([0-9]*\).*/\1/p" | head -n 1
}
runtime=$(figure write runtime)
longest=$(figure sync max)
due=$((count * block / (rate / 1000)))
echo "@@RESULT $((runtime - due)) $((longest / 1000000))"

# What was written is there when the file system is mounted again.
umount /mnt || fail "umount"
/bin/e2fsck -fn "$disk" > /dev/null || fail "e2fsck"
mount -t ext4 "$disk" /mnt || fail "mount again"
fio --name=writer --filename=/mnt/recording --ioengine=psync --rw=write --bs="$block" \
  --size=$((count * block)) --verify=crc32c --verify_only --eta=never \
  --output=/tmp/verified \
  || fail "the recording is not what was written"
umount /mnt || fail "second umount"
echo "writer: $((count * block)) bytes kept"
