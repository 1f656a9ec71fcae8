# Runs in the guest: the tests of the Kubernetes driver that need devices of the kernel. $ARGS: how
# volumes become devices, and whether all is run (1).
set -eu
export SPINDLE_CSI_ATTACH=${ARGS% *}
full=${ARGS#* }

fail() {
  echo "FAILED: $*"
  dmesg | tail -20
  exit 1
}

if [ "$SPINDLE_CSI_ATTACH" = ublk ] && ! modinfo ublk_drv > /dev/null 2>&1; then
  echo "SKIPPED: ublk: this kernel ($(uname -r)) has no ublk driver: KERNEL=6.12"
  exit 0
fi

# XFS is a module, which the guest's own list lacks.
for module in libcrc32c xfs; do
  if [ -e "/bin/$module.ko" ]; then insmod "/bin/$module.ko" || fail "insmod $module"; fi
done

# As cargo lays them out: a test finds the binaries in the directory above its own.
mkdir -p /target/debug/deps /target/tools/bin
for name in spindle spindle-csi; do ln -s "/bin/$name" "/target/debug/$name"; done
if [ -x /bin/csi-sanity ]; then ln -s /bin/csi-sanity /target/tools/bin/csi-sanity; fi

# run TEST [OPTION...]: a test binary, and its time.
run() {
  name=$1
  shift
  mv "/bin/csi-test-$name" "/target/debug/deps/$name"
  begun=$(date +%s)
  "/target/debug/deps/$name" --test-threads=1 --nocapture "$@" > /tmp/out 2>&1 ||
    fail "$name: $(tail -n 60 /tmp/out)"
  grep -E 'SKIPPED|kills|cut short|Passed|XFS has' /tmp/out || true
  echo "$name over $SPINDLE_CSI_ATTACH: $(grep -E '^test result' /tmp/out | sed 's/;.*//')," \
    "$(($(date +%s) - begun)) s"
}

if [ "$full" = 1 ]; then
  export SPINDLE_CASES=10 SPINDLE_KILLS=12
  run pods
  run node cuts_short
else
  SPINDLE_CASES=1 SPINDLE_KILLS=3 run pods
fi
if [ -x /bin/csi-sanity ]; then run sanity the_node; fi
for word in 'I/O error' 'EXT4-fs error' 'EXT4-fs warning' 'XFS.*corrupt'; do
  if dmesg | grep -i "$word"; then fail "the kernel saw an error"; fi
done
echo "kubernetes driver on Linux $(uname -r): volumes held over $SPINDLE_CSI_ATTACH"
