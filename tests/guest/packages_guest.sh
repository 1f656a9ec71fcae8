# Runs in a guest with systemd: the package is installed, served from, upgraded while its volume is
# in use, and purged.
set -u
exec >/dev/ttyS0 2>&1

ended() {
  echo "@@GUEST-END rc=$1"
  sync
  systemctl poweroff --force --force
  exit "$1"
}
fail() {
  echo "FAILED: $*"
  journalctl --no-pager -n 40 -u 'spindle*'
  cat /tmp/dpkg
  ended 1
}
. /root/checks.sh
uptime_s() { cut -d. -f1 /proc/uptime; }
packages() { dpkg "$@" >/tmp/dpkg 2>&1 || fail "dpkg $*"; }

echo "@@GUEST-START"
begun=$(uptime_s)
uri='nbd+unix:///vm1?socket=/run/spindle/nbd.sock'
packages --install /root/now.deb
systemctl is-active --quiet spindle.service && fail "a daemon runs before there is a config"
spindle init /var/lib/spindle/spindle.toml --yes --size 256MiB >/dev/null || fail "init"
systemctl enable --now spindle.socket spindle.service || fail "start"
systemctl is-active --quiet spindle.service || fail "the daemon does not run"
size=$(nbdinfo --size "$uri") || fail "nbdinfo"
ls /run/spindle/write-buffer-* >/dev/null || fail "no log of the write buffers"
systemctl enable --now spindle-attach@vm1.service || fail "attach"
device=$(spindle attach --list | grep -o '/dev/nbd[0-9]*') || fail "no device"
mke2fs -q -F -t ext4 "$device" || fail "mke2fs"
mount "$device" /mnt || fail "mount"
page() { curl --silent --fail --unix-socket /run/spindle/api.sock "http://localhost/$1"; }
script=$(page "" | grep -o 'src="[^"]*\.js"' | head -n 1 | cut -d '"' -f 2)
[ -n "$script" ] || fail "no page"
[ "$(page "${script#/}" | wc -c)" -gt 1000 ] || fail "the page's script $script"
echo "installed, served, mounted, the page loaded: in $(($(uptime_s) - begun)) s"
echo "$size bytes on $device"
grep -q '\[none\]' "/sys/block/${device#/dev/}/queue/scheduler" || fail "the kernel's scheduler"

systemd-analyze security --no-pager --threshold=20 spindle.service >/tmp/exposure ||
  fail "exposed: $(tail -n 1 /tmp/exposure)"
tail -n 1 /tmp/exposure

# Random writes that are verified, and clients that connect, all the time.
rounds() {
  while [ ! -e /tmp/enough ]; do
    fio --name=verified --filename=/mnt/verified --size=8m --rw=randwrite --bsrange=4k-64k \
      --direct=1 --ioengine=libaio --iodepth=8 --verify=crc32c --verify_fatal=1 \
      >/tmp/fio 2>&1 || { cp /tmp/fio /tmp/failed; return; }
    echo >>/tmp/rounds
  done
}
connects() {
  while [ ! -e /tmp/enough ]; do
    nbdinfo --size "$uri" >/tmp/nbdinfo 2>&1 || cat /tmp/nbdinfo >>/tmp/refused
    echo >>/tmp/connected
  done
}
count() { wc -l <"$1"; }
has_more() { [ "$(count "$1")" -gt "$2" ] || [ -e /tmp/failed ]; }
: >/tmp/rounds
: >/tmp/connected
rounds &
writer=$!
connects &
client=$!
while read -r version; do
  before=$(systemctl show --property=MainPID spindle.service)
  packages --install "/root/$version.deb"
  [ "$(systemctl show --property=MainPID spindle.service)" != "$before" ] ||
    fail "the old daemon still runs"
  awaited 60 systemctl is-active --quiet spindle.service
  for file in /tmp/rounds /tmp/connected; do awaited 120 has_more "$file" "$(count "$file")"; done
  # The first round and client that began behind the upgrade, too.
  for file in /tmp/rounds /tmp/connected; do awaited 120 has_more "$file" "$(count "$file")"; done
  [ ! -e /tmp/failed ] || fail "fio: $(cat /tmp/failed)"
  echo "replaced by $(dpkg-query --show --showformat='${Version}' spindle)"
done </root/versions
touch /tmp/enough
wait "$writer" "$client"
[ ! -e /tmp/failed ] || fail "fio: $(cat /tmp/failed)"
[ ! -e /tmp/refused ] || fail "a client was refused: $(cat /tmp/refused)"
umount /mnt || fail "umount"
e2fsck -fn "$device" >/tmp/checked 2>&1 || fail "e2fsck: $(cat /tmp/checked)"
if dmesg | grep -iE 'I/O error|EXT4-fs (error|warning)'; then fail "the kernel saw an error"; fi
echo "$(count /tmp/rounds) verified rounds, $(count /tmp/connected) clients, no error"

# A volume as a ublk device, within the sandbox that the drop-in opens for it.
if [ -e /dev/ublk-control ]; then
  udevadm trigger --settle /dev/ublk-control
  owner=$(stat --format='%G %a' /dev/ublk-control)
  [ "$owner" = "spindle 660" ] || fail "the rule of ublk's nodes: $owner"
  spindle vol create second --disk d0 --size 32MiB >/dev/null || fail "vol create"
  spindle attach --ublk second >/dev/null 2>&1 && fail "ublk without its drop-in"
  mkdir /etc/systemd/system/spindle.service.d
  cp /usr/share/doc/spindle/examples/spindle-ublk.conf /etc/systemd/system/spindle.service.d/
  systemctl daemon-reload
  systemctl restart spindle.service || fail "restart"
  second=$(spindle attach --ublk second) || fail "attach --ublk"
  udevadm settle
  owner=$(stat --format='%G %a' "$second")
  [ "$owner" = "spindle 660" ] || fail "the rule of $second: $owner"
  head -c 1048576 /dev/urandom >/tmp/data
  dd if=/tmp/data of="$second" bs=64k oflag=direct status=none || fail "dd"
  dd if="$second" bs=64k count=16 iflag=direct status=none | cmp - /tmp/data || fail "other data"
  spindle detach second >/dev/null || fail "detach second"
  systemd-analyze security --no-pager spindle.service | tail -n 1
  rm -r /etc/systemd/system/spindle.service.d
  systemctl daemon-reload
  systemctl restart spindle.service || fail "restart"
  echo "ublk: its rule, and a device within the sandbox"
else
  echo "SKIPPED: ublk's rule and drop-in: this kernel has no ublk driver (KERNEL=6.12)"
fi

before=$(systemctl show --property=MainPID spindle.service)
dpkg --purge spindle >/tmp/dpkg 2>&1 && fail "purged under an attached volume"
grep "found attached volumes: $device" /tmp/dpkg || fail "the refusal does not name $device"
[ "$(systemctl show --property=MainPID spindle.service)" = "$before" ] ||
  fail "a refused purge stopped the daemon"
spindle detach vm1 >/dev/null || fail "detach"
packages --purge spindle
grep "are left as they are" /tmp/dpkg || fail "the purge says nothing of the data"
systemctl is-active --quiet spindle.service spindle.socket && fail "it runs without a package"
find /etc/systemd/system -name 'spindle*' | grep . && fail "units are still enabled"
[ -s /var/lib/spindle/disk0.img ] && [ -s /var/lib/spindle/spindle.toml ] || fail "the data is gone"
echo "purged: the data stays"
ended 0
