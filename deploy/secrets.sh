#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Generates all secrets of a hub and prints them:
#
#   deploy/secrets.sh compose >.env                                        for docker-compose.yml
#   deploy/secrets.sh kubernetes | kubectl -n leat apply -f -              for deploy/kubernetes/hub.yaml
#   deploy/secrets.sh kubernetes --redis-tls | kubectl -n leat apply -f -  the same, if Redis has a certificate
#
# Run it once, because the distributor's secret seals the database. It needs leat (or LEAT=path) and openssl.
set -eu
umask 077

random() { openssl rand -hex 32; }
usage() {
	sed -n '5,11s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

form=${1:-}
scheme=redis
if [ "$#" -eq 2 ] && [ "$2" = --redis-tls ]; then scheme=rediss; elif [ "$#" -ne 1 ]; then usage; fi

gitcache=$(random)
tunnel=$(random)
admin=leat_$(random)
case $form in
compose)
	[ "$scheme" = redis ] || usage
	keys=$("${LEAT:-leat}" keys)
	cat <<END
$keys
LEAT_DISTRIBUTOR_ADMIN_TOKEN=$admin
LEAT_REDIS_GITCACHE_PASSWORD=$gitcache
LEAT_REDIS_TUNNEL_PASSWORD=$tunnel
LEAT_POSTGRES_PASSWORD=$(random)
END
	;;
kubernetes)
	keys=$("${LEAT:-leat}" keys -o kubernetes)
	cat <<END
$keys
---
apiVersion: v1
kind: Secret
metadata: { name: leat-hub }
stringData: { admin-token: $admin }
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
	;;
*) usage ;;
esac
