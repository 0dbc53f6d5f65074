#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Starts the hub's Redis with one user for each service and no default user; with a mounted certificate it serves TLS only.
# From the environment, or from the files gitcache-password and tunnel-password of a mounted folder: REDIS_GITCACHE_PASSWORD and REDIS_TUNNEL_PASSWORD,
# at least 32 bytes each.
# Passes its arguments to redis-server.
set -eu

conf=${REDIS_CONF:-/etc/leat-redis} # holds users.acl
run=${REDIS_RUN:-/run/leat-redis}   # in memory
tls=${REDIS_TLS:-/etc/leat-redis-tls}
secrets=${REDIS_SECRETS:-/etc/leat-secrets}
port=${REDIS_PORT:-6379}

# hash NAME VALUE FILE prints the sum of the value, or of what the file holds if the value is empty.
hash() {
	value=$2
	if [ -z "$value" ] && [ -e "$secrets/$3" ]; then value=$(cat "$secrets/$3"); fi
	if [ "${#value}" -lt 32 ]; then
		echo "$1, or the file $secrets/$3, must have at least 32 bytes" >&2
		exit 1
	fi
	printf %s "$value" | sha256sum | cut -d ' ' -f 1
}

gitcache=$(hash REDIS_GITCACHE_PASSWORD "${REDIS_GITCACHE_PASSWORD:-}" gitcache-password)
tunnel=$(hash REDIS_TUNNEL_PASSWORD "${REDIS_TUNNEL_PASSWORD:-}" tunnel-password)
unset REDIS_GITCACHE_PASSWORD REDIS_TUNNEL_PASSWORD
if [ "$gitcache" = "$tunnel" ]; then
	echo "the users of Redis must not share a password" >&2
	exit 1
fi

umask 077
sed -e "s/GITCACHE_PASSWORD_SHA256/$gitcache/" -e "s/TUNNEL_PASSWORD_SHA256/$tunnel/" "$conf/users.acl" >"$run/users.acl"

set -- "$@" --aclfile "$run/users.acl" --dir "$run" --save "" --appendonly no --maxmemory "${REDIS_MAXMEMORY:-400mb}" --maxmemory-policy noeviction
if [ -f "$tls/tls.crt" ]; then
	set -- "$@" --port 0 --tls-port "$port" --tls-cert-file "$tls/tls.crt" --tls-key-file "$tls/tls.key" --tls-ca-cert-file "$tls/ca.crt" --tls-auth-clients no
else
	set -- "$@" --port "$port"
fi
exec redis-server "$@"
