# Runs in the guest: `spindle-lab bench fronts` with $ARGS.
set -eu
modprobe ublk_drv 2> /dev/null || true
# shellcheck disable=SC2086
spindle-lab bench fronts $ARGS 2> /tmp/words || { cat /tmp/words; exit 1; }
