# Checks that scripts of tests share, on this machine and in its guests. Sourced by a script that
# has `fail MESSAGE`, which ends it.

# awaited SECONDS COMMAND...: repeats a command until it succeeds.
awaited() {
  local left=$(($1 * 10))
  shift
  until "$@"; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || fail "in vain: $*"
    sleep 0.1
  done
}

# refused WORDS COMMAND...: the command ends with 2, and its one line has these words.
refused() {
  local words=$1 code=0
  shift
  "$@" > /tmp/out 2> /tmp/err || code=$?
  [ "$code" -eq 2 ] || fail "$* ends with $code: $(cat /tmp/err)"
  [ "$(wc -l < /tmp/err)" -eq 1 ] || fail "$*: more than one line: $(cat /tmp/err)"
  grep -q -- "$words" /tmp/err || fail "$*: $(cat /tmp/err)"
}

# writes: random writes to /mnt, which are read back and verified, again and again until
# /tmp/enough is there. A line of /tmp/rounds for each round; a failure is in /tmp/failed.
writes() {
  while [ ! -e /tmp/enough ]; do
    fio --name=verified --filename=/mnt/verified --size=8m --rw=randwrite --bsrange=4k-64k \
      --direct=1 --ioengine=libaio --iodepth=8 --verify=crc32c --verify_fatal=1 \
      > /tmp/fio 2>&1 || { cp /tmp/fio /tmp/failed; return; }
    echo >> /tmp/rounds
  done
}

# start_writes, stop_writes: from one to the other `writes` runs, and fails not once.
start_writes() {
  : > /tmp/rounds
  writes &
  writer=$!
}
stop_writes() {
  touch /tmp/enough
  wait "$writer"
  has_verified
  [ -s /tmp/rounds ] || fail "fio verified nothing"
}
has_verified() { [ ! -e /tmp/failed ] || fail "fio: $(cat /tmp/failed)"; }
