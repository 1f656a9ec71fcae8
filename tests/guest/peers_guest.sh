# Runs in the guest: the clients of the cells of peers_cells.sh, each a fio in a control group of
# its own. ARGS: "linux KIND RAMP SECONDS [CELL]" compares Linux's schedulers on /dev/vda, a drive
# of that kind, each client in a region of its own; "volumes KIND RAMP SECONDS CELL" runs one cell
# with a disk for each client. A line for each client: "@@PEER scheduler cell client share load
# requests/s p99-in-ms".
set -eu
. /bin/peers_cells.sh
# shellcheck disable=SC2086
set -- $ARGS
mode=$1 kind=$2 ramp=$3 seconds=$4 only=${5:-}
number=$(cat /sys/block/vda/dev)
sectors=$(cat /sys/block/vda/size)
alone=/tmp/alone
: > "$alone"

# one GROUP DISK OFFSET SIZE LOAD: a client, in the background. Its report is in /tmp/GROUP. Each
# of a scheduler has random numbers of its own: a reader does not ask for what a writer before it
# wrote.
seed=1000
one() {
  seed=$((seed + 1))
  (
    echo 0 > "/cg/$1/cgroup.procs"
    # shellcheck disable=SC2046
    exec fio --name="$1" --filename="$2" --direct=1 --offset="$3" --size="$4" --norandommap \
      --randseed="$seed" --time_based --eta=never --ramp_time="$ramp" \
      --runtime="$seconds" --output-format=json --output="/tmp/$1" $(load "$5")
  ) &
}

# report GROUP: requests a second, and the 99th percentile in ms, with a database's flush in it.
report() {
  awk '
    /"read" :/ { part = "read" } /"write" :/ { part = "write" } /"trim" :/ { part = "trim" }
    /"sync" :/ { part = "sync" }
    /"iops" :/ { gsub(",", "", $3); rate[part] += $3 }
    /"99.000000" :/ { gsub(",", "", $3); p99[part] += $3 }
    END { printf "%.2f %.1f\n", rate["read"] + rate["write"],
      (p99["read"] + p99["write"] + p99["sync"]) / 1e6 }' "/tmp/$1"
}

# region COUNT: the bytes of the disk that each of the clients has, in whole MiB.
region() { echo $((sectors / $1 / 2048 * 1048576)); }

# cell SCHEDULER NAME CLIENT...: all clients of a cell at once.
cell() {
  scheduler=$1 name=$2
  shift 2
  index=0 pids= region=$(region $#)
  for client in "$@"; do
    if [ "$mode" = volumes ]; then
      disk=/dev/vd$(echo abcde | cut -c $((index + 1)))
      one "c$index" "$disk" 0 "100%" "${client#*:}"
    else
      one "c$index" /dev/vda $((index * region)) "$region" "${client#*:}"
    fi
    pids="$pids $!"
    index=$((index + 1))
  done
  # shellcheck disable=SC2086
  wait $pids
  index=0
  for client in "$@"; do
    echo "@@PEER $scheduler $name $index ${client%:*} ${client#*:} $(report "c$index")"
    index=$((index + 1))
  done
}

# alone NAME CLIENT...: each client of a cell alone, in its region.
alone() {
  name=$1
  shift
  index=0 region=$(region $#)
  for client in "$@"; do
    one "c$index" /dev/vda $((index * region)) "$region" "${client#*:}"
    wait "$!"
    echo "$name $index ${client#*:} $(report "c$index")" >> "$alone"
    echo "@@PEER alone $name $index ${client%:*} ${client#*:} $(report "c$index")"
    index=$((index + 1))
  done
}

# rate CELL CLIENT: what a client had alone.
rate() {
  awk -v cell="$1" -v client="$2" '$1 == cell && $2 == client { print $4 }' "$alone"
}

# io.cost's model of the drive: what its loads had alone, or the data sheet of the flash drive,
# whose requests of 4 KiB the guest cannot ask for fast enough.
model() {
  if [ "$kind" = flash ]; then
    echo "ctrl=user model=linear rbps=560000000 rseqiops=98000 rrandiops=98000 wbps=530000000" \
      "wseqiops=88000 wrandiops=88000"
    return
  fi
  awk '
    $3 == "random16" { random = $4 } $3 == "writes16" { writes = $4 }
    $3 == "sequential4k" { small = $4 } $3 == "sequential1m" { long = $4 * 1048576 }
    END { printf "ctrl=user model=linear rbps=%d rseqiops=%d rrandiops=%d wbps=%d wseqiops=%d " \
      "wrandiops=%d\n", long, small, random, long, small, writes }' "$alone"
}

# schedule SCHEDULER CELL CLIENT...: sets a scheduler with the shares of a cell.
schedule() {
  scheduler=$1 name=$2
  shift 2
  echo "$number enable=0" > /cg/io.cost.qos
  case $scheduler in
    mq-deadline | bfq) echo "$scheduler" > /sys/block/vda/queue/scheduler ;;
    bfq-strict) echo bfq > /sys/block/vda/queue/scheduler ;;
    *) echo none > /sys/block/vda/queue/scheduler ;;
  esac
  case $scheduler in
    bfq*)
      echo 0 > /sys/block/vda/queue/iosched/low_latency
      [ "$scheduler" = bfq ] || echo 1 > /sys/block/vda/queue/iosched/strict_guarantees
      ;;
    io.cost)
      echo "$number $(model)" > /cg/io.cost.model
      echo "$number enable=1 ctrl=user min=100.00 max=100.00" > /cg/io.cost.qos
      ;;
  esac
  index=0
  for client in "$@"; do
    group=/cg/c$index share=${client%:*}
    echo "$number rbps=max wbps=max riops=max wiops=max" > "$group/io.max"
    case $scheduler in
      bfq*) echo $((share * 10)) > "$group/io.bfq.weight" ;;
      io.cost) echo "default $((share * 10))" > "$group/io.weight" ;;
      io.max)
        most=$(rate "$name" "$index" |
          awk -v share="$share" '{ printf "%d", $1 * share / 100 + 1 }')
        bytes=$(long_request "${client#*:}")
        if [ -n "$bytes" ]; then
          echo "$number rbps=$((most * bytes)) wbps=$((most * bytes))" > "$group/io.max"
        else
          echo "$number riops=$most wiops=$most" > "$group/io.max"
        fi
        ;;
    esac
    index=$((index + 1))
  done
}

for index in 0 1 2 3 4; do mkdir -p "/cg/c$index"; done
if [ "$mode" = volumes ]; then
  for disk in /sys/block/vd?; do echo none > "$disk/queue/scheduler"; done
  cells "$kind" | while read -r name clients; do
    # shellcheck disable=SC2086
    if [ "$name" = "$only" ]; then cell spindle "$name" $clients; fi
  done
  exit
fi
echo none > /sys/block/vda/queue/scheduler
# shellcheck disable=SC2086
cells "$kind" | while read -r name clients; do
  if [ -n "$name" ] && { [ -z "$only" ] || [ "$name" = "$only" ]; }; then alone "$name" $clients; fi
done
for scheduler in none mq-deadline bfq bfq-strict io.cost io.max; do
  # shellcheck disable=SC2086
  cells "$kind" | while read -r name clients; do
    if [ -n "$name" ] && { [ -z "$only" ] || [ "$name" = "$only" ]; }; then
      schedule "$scheduler" "$name" $clients
      cell "$scheduler" "$name" $clients
    fi
  done
done
