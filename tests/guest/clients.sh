#!/bin/bash
# What contracts are worth to programs in a Linux guest, beside neighbours on the host (fio over
# NBD), on an emulated hgst-7k8:
#   sqlite   SQLite commits small transactions with 30 %, beside a backup with 70 %: against the
#            same guest alone on the drive slowed to 0.3
#   buffered SQLite with 30 %, beside random writes, sequential writes and sequential reads with
#            70 %: each write answered from its own volume's buffer
#   reader   one random 4 KiB read at a time with 50 %, beside 16 outstanding with 50 %
#   writer   a recorder through ext4 on a stream, beside two backups
#   sample   no figure is judged: a few transactions of SQLite beside a backup, all of them kept
#   SPINDLE=path/to/spindle tests/guest/clients.sh [NAME...]
# Without names sqlite, reader and writer run. SPINDLE is target/release/spindle unless given;
# POLICY is the disk's policy (spindle), COUNT the number of transactions (300), SECONDS_READ (30)
# and SECONDS_WRITTEN (600) how long the reader and the writer run. Prints a table. Exit status: 0
# if all bounds hold, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

for program in fio sqlite3; do
  if ! command -v "$program" > /dev/null; then
    echo "$0: $program is not installed: make clients" >&2
    exit 2
  fi
done
policy=${POLICY:-spindle}
count=${COUNT:-300}
pids=()
missed=0
rows=()

# plan SLOWED CONTRACT [NAME CONTRACT]...: a disk, the guest's volume, and its neighbours'.
plan() {
  cat << TOML
[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "disk.img"
policy = "$policy"
slowed = $1

[[volume]]
name = "guest"
disk = "d0"
size = "$size"
$2
TOML
  shift 2
  while [ $# -gt 0 ]; do
    printf '\n[[volume]]\nname = "%s"\ndisk = "d0"\nsize = "500GiB"\n%s\n' "$1" "$2"
    shift 2
  done
}

# The neighbours' loads, each a fio over NBD, from before the guest boots until it says that it
# ends.
loads=()
start_loads() {
  pids=()
  for load in "${loads[@]}"; do
    read -r volume rw block depth span <<< "$load"
    fio --name="$volume" --ioengine=nbd --uri="nbd+unix:///$volume?socket=$dir/nbd.sock" \
      --rw="$rw" --bs="$block" --iodepth="$depth" --size="${span:-500g}" --norandommap \
      --time_based --runtime=7200 --output="$dir/load.$volume" &
    pids+=($!)
  done
}
stop_loads() {
  for pid in "${pids[@]}"; do
    kill -TERM "$pid"
    wait "$pid" || true
  done
  pids=()
}
# The daemon's counts at this moment: the time in seconds, then requests and bytes of each load's
# volume.
counts() {
  "$spindle" vol ls --json --socket "$dir/spindle-api.sock" | tr '{' '\n' > "$dir/volumes"
  sed -n 's/.*"told_at_s":\([0-9.]*\).*/\1/p' "$dir/volumes" | head -n 1
  for load in "${loads[@]}"; do
    sed -n "/\"name\":\"${load%% *}\"/p" "$dir/volumes" |
      sed -n 's/.*"bytes":\([0-9]*\),.*"requests":\([0-9]*\),.*/\2 \1/p'
  done
}
# What each load had a second between the two counts: requests, and MB.
rates() {
  paste "$dir/begun" "$dir/ended" | awk '
    NR == 1 { seconds = $2 - $1; next }
    { printf("%s%.1f/s, %.1f MB/s", (NR > 2 ? "; " : ""), ($3 - $1) / seconds,
      ($4 - $2) / seconds / 1e6) }'
}

# guest SCRIPT: serves the plan and runs the script in a guest, with the loads beside it. Its
# result is in $first and $second. The counts are taken when it says that it begins and ends.
guest() {
  serve
  start_loads
  export LOG=$dir/serial.log
  : > "$LOG"
  boot "$here/$1" guest > "$dir/said" 2>&1 &
  guest_run=$!
  while read -r line; do
    case $line in
      *@@BEGIN*) counts > "$dir/begun" ;;
      *@@END*)
        counts > "$dir/ended"
        stop_loads
        ;;
      *@@GUEST-END*) break ;;
    esac
  done < <(tail --pid="$guest_run" -n +1 -F "$LOG" 2> /dev/null)
  ended=0
  wait "$guest_run" || ended=$?
  stop_loads
  stop
  result=$(sed -n 's/^@@RESULT //p' "$dir/said")
  if [ "$ended" -ne 0 ] || [ -z "$result" ]; then
    echo "FAILED: the guest ended with $ended:" >&2
    cat "$dir/said" >&2
    exit 1
  fi
  read -r first second <<< "$result"
}

# judge NAME FIGURE RELATION BOUND UNIT: a row of the table. A figure that is no number misses.
judge() {
  verdict=$(awk -v figure="$2" -v bound="$4" -v relation="$3" 'BEGIN {
    number = figure ~ /^-?[0-9.]+$/
    holds = number && (relation == "at least" ? figure + 0 >= bound + 0 : figure + 0 <= bound + 0)
    print holds ? "holds" : "MISSED" }')
  [ "$verdict" = holds ] || missed=1
  rows+=("$(printf '%-64s %10s %-6s %-8s %8s  %s' "$1" "$2" "$5" "$3" "$4" "$verdict")")
}
# note NAME FIGURE UNIT: a row without a bound.
note() {
  rows+=("$(printf '%-64s %10s %-6s' "$1" "$2" "$3")")
}
told() {
  rows+=("$1")
}
ratio() {
  awk -v one="$1" -v other="$2" 'BEGIN { printf "%.3f\n", one / other }'
}

# sqlite_alone MODE: SQLite alone on the slowed drive, in a journal mode.
sqlite_alone() {
  size=4GiB loads=()
  export EXTRA=$(command -v sqlite3) ARGS="$1 $count"
  plan 0.3 "" > "$dir/plan.toml"
  guest sqlite_guest.sh
  reference=$first
  note "SQLite, journal_mode $1: on the drive slowed to 0.3" "$first" "/s"
  note "  p99 there" "$second" "ms"
}

sqlite() {
  for mode in delete wal; do
    sqlite_alone "$mode"
    loads=("backup read 1m 4")
    plan 1 'reserve = "30%"' backup 'reserve = "70%"' > "$dir/plan.toml"
    guest sqlite_guest.sh
    note "  with 30 % beside a backup" "$first" "/s"
    judge "  of those on the slowed drive" "$(ratio "$first" "$reference")" "at least" 0.75 ""
    note "  p99" "$second" "ms"
    told "  the backup with 70 %: $(rates)"
    note "  load average" "$(cut -d ' ' -f 1 /proc/loadavg)" ""
  done
  unset EXTRA ARGS
}

# SQLite with write buffers beside a neighbour that writes, or reads, with 70 %.
buffered() {
  for mode in delete wal; do
    sqlite_alone "$mode"
    # Sequential writes go round within 1 GiB: the backing keeps what is written.
    for load in "randwrite 4k 16" "write 1m 4 1g" "read 1m 4"; do
      loads=("backup $load")
      plan 1 'reserve = "30%"' backup 'reserve = "70%"' > "$dir/plan.toml"
      guest sqlite_guest.sh
      note "  with 30 % beside $load" "$first" "/s"
      judge "    of those on the slowed drive" "$(ratio "$first" "$reference")" "at least" 0.75 ""
      note "    p99" "$second" "ms"
      told "    the neighbour with 70 %: $(rates)"
      note "    load average" "$(cut -d ' ' -f 1 /proc/loadavg)" ""
    done
  done
  unset EXTRA ARGS
}

reader() {
  size=3600GiB
  export ARGS=${SECONDS_READ:-30}
  loads=("backlog randread 4k 16")
  plan 1 'reserve = "50%"' backlog 'reserve = "50%"' > "$dir/plan.toml"
  guest reader_guest.sh
  judge "one random read with 50 % beside 16 outstanding" "$first" "at least" 40 "/s"
  note "  p99" "$second" "ms"
  told "  the 16 outstanding with 50 %: $(rates)"
  note "  load average" "$(cut -d ' ' -f 1 /proc/loadavg)" ""
  unset ARGS
}

writer() {
  size=20GiB
  export ARGS=${SECONDS_WRITTEN:-600} TMO=$((${SECONDS_WRITTEN:-600} * 3 + 600))
  loads=("backup1 read 1m 4" "backup2 read 1m 4")
  plan 1 'stream = { bandwidth = "1.45MB/s", block = "1MB" }' \
    backup1 'reserve = "40%"' backup2 'reserve = "40%"' > "$dir/plan.toml"
  guest writer_guest.sh
  judge "a recorder of 1.43 MB/s for $ARGS s: behind its rate at the end" "$first" \
    "at most" 2000 "ms"
  judge "  its longest fsync" "$second" "at most" 5000 "ms"
  told "  the two backups with 40 % each: $(rates)"
  note "  load average" "$(cut -d ' ' -f 1 /proc/loadavg)" ""
  judge "  bytes of the stream that were late" "$(stream_bytes missed)" "at most" 0 "B"
  for kind in met beyond_rate out_of_order not_gathered; do
    note "  bytes of the stream: $kind" "$(stream_bytes "$kind")" "B"
  done
  unset ARGS TMO
}
# The daemon's count of such bytes of the guest's stream.
stream_bytes() {
  sed -n 's/.*"bytes":{\([^}]*\)}.*/\1/p' "$dir/accounts.json" | tr ',' '\n' |
    sed -n "s/^\"$1\"://p"
}

sample() {
  size=1GiB count=20
  export EXTRA=$(command -v sqlite3) ARGS="wal 20"
  loads=("backup read 1m 4")
  plan 1 'reserve = "30%"' backup 'reserve = "70%"' > "$dir/plan.toml"
  guest sqlite_guest.sh
  echo "guest: SQLite kept its transactions beside a backup"
  unset EXTRA ARGS
}

for name in "${@:-sqlite reader writer}"; do
  for each in $name; do
    case $each in
      sqlite | buffered | reader | writer | sample) "$each" ;;
      *) echo "$0: $each: expected sqlite, buffered, reader, writer or sample" >&2; exit 2 ;;
    esac
  done
done
for row in "${rows[@]}"; do echo "$row"; done
exit "$missed"
