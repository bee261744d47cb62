#!/bin/sh
# After removing. A purge deletes the queues as well; a plain removal keeps them in /var/lib/kestrel.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ "$1" = purge ]; then
  rm -rf /var/lib/kestrel /etc/kestrel
fi
