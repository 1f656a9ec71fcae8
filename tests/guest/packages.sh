#!/bin/bash
# Boots a Debian with systemd in a guest, installs the package of one version there, and upgrades it
# to another and back while a file system on an attached volume is written to and clients connect
# (packages_guest.sh).
#   tests/guest/packages.sh NOW NEXT ROOT
# NOW and NEXT are directories of packages (packaging/build.sh), ROOT the archive of a Debian root
# (packaging/root.sh). Needs root. KERNEL=6.12 boots a kernel with ublk, whose rule and drop-in are
# tried then. REPLACEMENTS is the number of upgrades and returns (1; 3).
# Exit status: 0 if all checks hold, or without a guest to boot; else not 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
guest=$here/../../../shared/guest/guest.sh
kept=${GUEST_DIR:-${HOME:-/root}/.cache/spindle-guest}${KERNEL:+/$KERNEL}
if [ ! -f "$guest" ]; then
  echo "SKIPPED: no guest to boot: ../shared/guest/guest.sh is missing beside the project"
  exit 0
fi
replacements=${REPLACEMENTS:-1}
if [ "$replacements" -lt 3 ]; then
  echo "SKIPPED: $((3 - replacements)) of 3 replacements: REPLACEMENTS=3 makes all"
fi
now=$(ls "$1"/spindle_*.deb)
next=$(ls "$2"/spindle_*.deb)
bash "$guest" prepare >/dev/null

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tree=$dir/tree
mkdir "$tree"
tar -C "$tree" -xf "$3"
cp "$now" "$tree/root/now.deb"
cp "$next" "$tree/root/next.deb"
cp "$here/packages_guest.sh" "$tree/root/try.sh"
cp "$here/../checks.sh" "$tree/root/checks.sh"
for number in $(seq "$replacements"); do
  if ((number % 2)); then echo next; else echo now; fi
done >"$tree/root/versions"
cat >"$tree/etc/systemd/system/try.service" <<'UNIT'
[Service]
Type=oneshot
ExecStart=/bin/bash /root/try.sh
UNIT
mkdir -p "$tree/etc/systemd/system/multi-user.target.wants"
ln -s ../try.service "$tree/etc/systemd/system/multi-user.target.wants/"
# Nothing that has no part in it.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  e2scrub_reap.service getty@tty1.service serial-getty@ttyS0.service fstrim.timer; do
  ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done
mke2fs -q -t ext4 -d "$tree" "$dir/root.img" 1536M >/dev/null
rm -rf "$tree"

# The guest's own first program loads the drivers and gives way to systemd.
mkdir "$dir/initramfs"
cat >"$dir/initramfs/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin:/sbin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in virtio_pci virtio_blk nbd; do modprobe $module; done
modprobe ublk_drv 2> /dev/null
mkdir /system
for second in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vda ] && break; sleep 1; done
mount -t ext4 /dev/vda /system || poweroff -f
umount /proc /sys
exec switch_root /system /lib/systemd/systemd
INIT
chmod +x "$dir/initramfs/init"
(cd "$dir/initramfs" && find . | cpio -o -H newc --quiet) >"$dir/extra.cpio"
cat "$kept/base.cpio" "$dir/extra.cpio" >"$dir/initrd"

log=${LOG:-$dir/serial.log}
# Its timer's ticks are not counted, which an emulated processor may miss (common.sh).
append="console=ttyS0 quiet panic=-1 no_timer_check"
timeout -k 5 "${TMO:-600}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 \
  -nographic -nodefaults -no-reboot -kernel "$(ls "$kept"/kernel/boot/vmlinuz-*)" \
  -initrd "$dir/initrd" -append "$append" -serial "file:$log" -display none \
  -drive "file=$dir/root.img,format=raw,if=virtio,cache=unsafe" </dev/null ||
  echo "qemu ended with $?"
tr -d '\r' <"$log" | sed -n '/@@GUEST-START/,/@@GUEST-END/p' | sed '1d;$d'
if ! grep -q '@@GUEST-END rc=0' "$log"; then
  echo "FAILED: the guest did not end well:" >&2
  tail -n 20 "$log" >&2
  exit 1
fi
