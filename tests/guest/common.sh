# Shared by the guests' runs: starts, awaits and stops a daemon; boots a guest. Sourced with
# `here` and `SPINDLE` set; exits at once without a guest to boot.
root=$(cd "$here/../.." && pwd)
guest=$root/../shared/guest/guest.sh
spindle=${SPINDLE:-$root/target/release/spindle}
# What scripts in a guest share: /bin/checks.sh there, if EXTRA has it.
checks=$root/tests/checks.sh

if [ ! -f "$guest" ]; then
  echo "SKIPPED: no guest to boot: ../shared/guest/guest.sh is missing beside the project"
  exit 0
fi
if [ ! -x "$spindle" ]; then
  echo "$0: $spindle does not exist: build it (cargo build --release) or set SPINDLE" >&2
  exit 2
fi
bash "$guest" prepare
# The guest's kernel counts ticks of its timer when it boots, and panics if it misses some: an
# emulated processor that waits for a busy one of the host does.
export APPEND="${APPEND:-} no_timer_check"

dir=$(mktemp -d)
daemon=
finish() {
  local status=$?
  # A step of the cleaning that fails neither ends it nor takes the place of the status.
  set +e
  # Only the daemon that was started here, by its number.
  if [ -n "$daemon" ]; then kill -KILL "$daemon" 2>/dev/null || true; fi
  rm -rf "$dir"
  exit "$status"
}
trap finish EXIT

# serve [ARGUMENT...]: serves $dir/plan.toml on $dir/nbd.sock. Reads the daemon's messages from a
# pipe until it listens or ends. Its first address is in $listening.
serve() {
  rm -f "$dir/words"
  mkfifo "$dir/words"
  "$spindle" serve "$dir/plan.toml" "$@" --listen "unix:$dir/nbd.sock" --json \
    > "$dir/accounts.json" 2> "$dir/words" &
  daemon=$!
  exec 3< "$dir/words"
  listening=
  while read -r line <&3; do
    echo "spindle: $line"
    case $line in "listening on "*) listening=${line#listening on }; break ;; esac
  done
  if [ -z "$listening" ]; then
    echo "FAILED: spindle does not serve" >&2
    exit 1
  fi
  cat <&3 > "$dir/rest" &
}

# Sets $other: another build of the program, or, with a notice, the same.
another_build() {
  other=${OTHER:-$spindle}
  if [ ! -x "$other" ] || cmp -s "$other" "$spindle"; then
    echo "SKIPPED: a replacement by another build: OTHER=path/to/another/spindle does it"
    other=$spindle
  fi
}

# restart NUMBER [ARGUMENT...]: ends the daemon and serves again with these arguments. The daemon is
# replaced by the other build, stopped and killed in turns.
restart() {
  case $(($1 % 3)) in
    0)
      stop
      local before=$spindle
      spindle=$other
      other=$before
      ;;
    1) stop ;;
    2) kill -KILL "$daemon"; wait "$daemon" || true ;;
  esac
  serve "${@:2}"
}

# boot SCRIPT VOLUME: runs a script in a guest whose disk is that volume.
boot() {
  status=0
  bash "$guest" run "$1" "nbd+unix:///$2?socket=$dir/nbd.sock" || status=$?
  if [ "$status" -ne 0 ]; then
    echo "FAILED: the guest ended with $status" >&2
    cat "$dir/rest" >&2
    exit "$status"
  fi
}

stop() {
  kill -TERM "$daemon"
  stopped=0
  wait "$daemon" || stopped=$?
  daemon=
  if [ "$stopped" -ne 0 ]; then
    echo "FAILED: spindle ended with $stopped" >&2
    cat "$dir/rest" >&2
    exit 1
  fi
}
