#!/bin/sh
# After installing or upgrading: make the user, start the server, or restart the one that runs.
set -e
systemd-sysusers kestrel.conf
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl enable --quiet kestrel.service
systemctl restart kestrel.service || {
  echo "kestrel does not start; its log says why: journalctl -u kestrel" >&2
}
