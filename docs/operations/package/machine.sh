#!/bin/sh
# Boots a small Debian in a container, with systemd as its first process, and runs a script in it as
# root: machine.sh SCRIPT FILE... The files are in /root beside the script. The exit code is the script's.
# It needs root and Debian's mmdebstrap and systemd-container; the system it makes is kept in bin/machine.
#
# machine.sh --can says whether this machine can boot one: exit code 0 or 1.
set -eu
cd "$(dirname "$0")/../../.."
if [ "${1-}" = --can ]; then
  for tool in mmdebstrap systemd-nspawn; do
    command -v $tool >/dev/null || { echo "$tool is not installed"; exit 1; }
  done
  [ "$(id -u)" = 0 ] || { echo "booting a container needs root"; exit 1; }
  trial=$(mktemp)
  echo "echo booted" >"$trial"
  "$0" "$trial" || { echo "this machine cannot boot a container"; exit 1; }
  rm "$trial"
  exit 0
fi
[ -f "${1-}" ] || { echo "machine.sh: \"${1-}\" is no file; usage: machine.sh SCRIPT FILE... or machine.sh --can"; exit 2; }
base=bin/machine/debian
# A /proc that mmdebstrap had mounted stays so if somebody looked into it meanwhile, or if it was killed.
unmount() {
  for inside in proc sys dev; do
    ! mountpoint -q "$base/$inside" || umount -R "$base/$inside"
  done
}
if [ ! -e "$base/.whole" ]; then
  unmount
  rm -rf "$base"
  mkdir -p "$base"
  mmdebstrap --quiet --variant=minbase \
    --include=systemd,systemd-sysv,dbus,procps,python3-minimal,python3-pymemcache,tmux "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$base"
  unmount
  touch "$base/.whole"
fi
machine=bin/machine/run.$$
trap 'rm -rf "$machine"' EXIT
# Only the files: a /proc that stayed mounted in the system, because somebody looked into it, would fill the disk.
cp -a --one-file-system --reflink=auto "$base" "$machine"
script=$(basename "$1")
cp "$@" "$machine/root/"
cat >"$machine/etc/systemd/system/script.service" <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
WorkingDirectory=/root
Environment=HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive
ExecStart=/bin/sh -c '/bin/sh /root/$script >/root/output 2>&1; echo \$\$? >/root/code; systemctl poweroff --no-block'
[Install]
WantedBy=default.target
UNIT
mkdir -p "$machine/etc/systemd/system/default.target.wants"
ln -s ../script.service "$machine/etc/systemd/system/default.target.wants/"
timeout 300 systemd-nspawn --quiet --boot --directory="$machine" --register=no --keep-unit \
  --private-network --console=pipe >"$machine/console" 2>&1 || true
cat "$machine/root/output"
[ -e "$machine/root/code" ] || { echo "the machine did not get to the end:"; tail -20 "$machine/console"; exit 1; }
exit "$(cat "$machine/root/code")"
