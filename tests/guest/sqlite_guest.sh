# Runs in the guest, on /dev/vda: SQLite commits small transactions on ext4, one after the other.
# ARGS: the journal mode, and the number of transactions. Says when it begins and ends, and
# "@@RESULT transactions/s p99-in-ms" of all but the first tenth.
set -eu
mode=${ARGS% *}
count=${ARGS#* }
disk=/dev/vda

fail() {
  echo "FAILED: $*"
  exit 1
}

/bin/mke2fs -q -F -t ext4 "$disk" || fail "mke2fs"
mount -t ext4 "$disk" /mnt || fail "mount"
sqlite3 /mnt/bank.db "PRAGMA journal_mode = $mode;
  CREATE TABLE entries (id INTEGER PRIMARY KEY, text TEXT);" > /dev/null || fail "create"
sync

# Each INSERT is a transaction of its own, durable when it returns (synchronous = FULL).
awk -v count="$count" 'BEGIN {
  print "PRAGMA synchronous = FULL;"
  print ".timer on"
  for (i = 1; i <= count; i++)
    printf "INSERT INTO entries (id, text) VALUES (%d, hex(randomblob(50)));\n", i
}' > /tmp/script
echo "@@BEGIN"
sqlite3 /mnt/bank.db < /tmp/script > /tmp/times || fail "transactions"
echo "@@END"

awk '/^Run Time: real/ { print $4 }' /tmp/times | tail -n "+$((count / 10 + 1))" > /tmp/seconds
measured=$(wc -l < /tmp/seconds)
[ "$measured" -eq $((count - count / 10)) ] || fail "$measured transactions measured"
sort -n /tmp/seconds | awk -v count="$measured" '
  { sum += $1; if (NR == int(count * 0.99 + 0.5)) p99 = $1 }
  END { printf "@@RESULT %.2f %.0f\n", count / sum, p99 * 1000 }'

# What was committed is there when the file system is mounted again.
umount /mnt || fail "umount"
/bin/e2fsck -fn "$disk" > /dev/null || fail "e2fsck"
mount -t ext4 "$disk" /mnt || fail "mount again"
rows=$(sqlite3 /mnt/bank.db "SELECT count(*) FROM entries;")
[ "$rows" -eq "$count" ] || fail "$rows rows of $count"
whole=$(sqlite3 /mnt/bank.db "PRAGMA integrity_check;")
[ "$whole" = ok ] || fail "integrity_check: $whole"
umount /mnt || fail "second umount"
echo "sqlite: $count transactions kept"
