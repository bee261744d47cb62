#!/bin/sh
# Before removing: stop the server. An upgrade leaves it running; the new package restarts it.
# dpkg passes "remove", "upgrade" or "deconfigure", rpm how many versions stay.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --quiet --now kestrel.socket kestrel.service
