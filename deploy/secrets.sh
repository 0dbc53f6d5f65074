#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints all secrets of a hub:
#
#   deploy/secrets.sh kubernetes | kubectl -n leat apply -f -              for deploy/kubernetes/hub.yaml
#   deploy/secrets.sh kubernetes --redis-tls | kubectl -n leat apply -f -  the same, if Redis has a certificate
#
# Run it once, because the distributor's secret seals the database. It needs leat (or LEAT=path) and openssl.
set -eu

random() { openssl rand -hex 32; }

scheme=redis
if [ "$#" -eq 2 ] && [ "$2" = --redis-tls ]; then scheme=rediss; elif [ "$#" -ne 1 ]; then set -- help; fi
if [ "$1" != kubernetes ]; then
	sed -n '5,10s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi

keys=$("${LEAT:-leat}" keys -o kubernetes)
gitcache=$(random)
tunnel=$(random)
cat <<END
$keys
---
apiVersion: v1
kind: Secret
metadata: { name: leat-hub }
stringData: { admin-token: leat_$(random) }
---
apiVersion: v1
kind: Secret
metadata: { name: leat-redis }
stringData:
  gitcache-password: $gitcache
  tunnel-password: $tunnel
  gitcache-url: $scheme://gitcache:$gitcache@redis:6379/0
  tunnel-url: $scheme://tunnel:$tunnel@redis:6379/0
END
[ "$scheme" = redis ] || echo "  ca-file: /etc/leat-redis-tls/ca.crt"
