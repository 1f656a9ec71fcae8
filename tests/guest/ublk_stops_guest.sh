# Runs in the guest: a daemon that serves a ublk device is stopped and started again, $ARGS times,
# while 64 requests are outstanding on the device: each start finds the device, and no request
# fails.
set -eu
. /bin/checks.sh
config=/tmp/plan.toml

cat > "$config" <<'TOML'
[[disk]]
name = "d0"
drive = "samsung-870evo-1t"
backing = "ram"

[[volume]]
name = "data"
disk = "d0"
size = "64MiB"
ublk = true
TOML

fail() {
  echo "FAILED: $* (stop $stop)"
  tail -n 20 /tmp/daemon 2> /dev/null || true
  for task in "/proc/$daemon"/task/*; do
    [ -e "$task" ] || continue
    echo "$(cat "$task/comm") in $(cat "$task/wchan")"
    cat "$task/stack"
  done
  dmesg | tail -20
  exit 1
}

# Starts a daemon, and waits until it serves.
start() {
  rm -f /tmp/words
  mkfifo /tmp/words
  spindle serve "$config" --listen unix:/tmp/nbd.sock > /dev/null 2> /tmp/words &
  daemon=$!
  (while read -r line; do
    echo "$line" >> /tmp/daemon
    case $line in "data: 64MiB"*) touch /tmp/serves ;; esac
  done < /tmp/words) &
  awaited 60 [ -e /tmp/serves ]
  rm /tmp/serves
}

# Whether most of fio's requests are at the device.
under_load() {
  read -r reads writes < /sys/block/ublkb0/inflight
  [ $((reads + writes)) -ge 32 ]
}

stop=0
start
fio --name=load --filename=/dev/ublkb0 --rw=randrw --bs=4k --direct=1 --ioengine=libaio \
  --iodepth=64 --time_based --runtime=3600 > /tmp/fio 2>&1 &
load=$!
while [ "$stop" -lt "$ARGS" ]; do
  stop=$((stop + 1))
  awaited 60 under_load
  kill -TERM "$daemon"
  wait "$daemon" || fail "the daemon ended badly"
  start
done
kill -0 "$load" || fail "fio has ended: $(cat /tmp/fio)"
kill -INT "$load"
wait "$load" || true
grep -q 'err= 0' /tmp/fio || fail "fio: $(cat /tmp/fio)"
if dmesg | grep -iE 'I/O error'; then fail "the kernel saw an error"; fi
kill -TERM "$daemon"
wait "$daemon" || fail "the daemon ended badly"
echo "ublk: $stop stops under 64 requests, no error"
