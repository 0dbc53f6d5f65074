#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Generates all secrets of a hub:
#
#   deploy/secrets.sh compose                                              writes .env, for docker-compose.yml
#   deploy/secrets.sh certificate                                          renews the certificate that the line above makes
#   deploy/secrets.sh kubernetes | kubectl -n leat apply -f -              for deploy/kubernetes/hub.yaml
#   deploy/secrets.sh kubernetes --redis-tls | kubectl -n leat apply -f -  the same, if Redis has a certificate
#
# Run it once, because the distributor's secret seals the database. It needs leat (or LEAT=path) and openssl.
# The file .env (LEAT_ENV_FILE names another) is for its owner alone, and one that is there already is not replaced: it may hold the only key of a database.
#
# The certificate of the compose tunnel and the authority that signs it are files in LEAT_TLS_DIR, by default deploy/compose/tls. A certificate that is
# good for 30 more days is kept, and so is the authority, which people and agents trust (ca.crt). LEAT_TLS_NAMES adds names for callers on other
# machines, such as DNS:hub.example.com,IP:192.0.2.7; delete tls.crt to make one with other names.
set -eu
umask 077

random() { openssl rand -hex 32; }
usage() {
	sed -n '5,13s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

tls=${LEAT_TLS_DIR:-$(dirname "$0")/compose/tls}
env=${LEAT_ENV_FILE:-$(dirname "$0")/../.env}
names=DNS:localhost,IP:127.0.0.1,IP:::1,DNS:tunnel,DNS:tunnel-1,DNS:tunnel-2${LEAT_TLS_NAMES:+,$LEAT_TLS_NAMES}

# key PATH makes a private key. A container's user must be able to read the tunnel's, so it is the folder that keeps others out.
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }
serial() { echo "0x0$(openssl rand -hex 15)"; }

# certificate makes what is missing or ends soon. Each file gets its name when it is complete, the certificate last.
certificate() {
	mkdir -p "$tls"
	chmod 0700 "$tls"
	work=$(mktemp -d "$tls/.new.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	if ! [ -s "$tls/ca.crt" ] || ! openssl x509 -in "$tls/ca.crt" -noout -checkend 34300800 >/dev/null; then
		key "$work/ca.key"
		openssl req -new -key "$work/ca.key" -subj "/O=Leat/CN=Leat compose $(openssl rand -hex 4)" -out "$work/ca.csr"
		printf 'basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n' >"$work/ca.ext"
		openssl x509 -req -in "$work/ca.csr" -signkey "$work/ca.key" -set_serial "$(serial)" -days 3650 -sha256 -extfile "$work/ca.ext" \
			-out "$work/ca.crt" 2>/dev/null
		chmod 0644 "$work/ca.crt"
		rm -f "$tls/tls.crt"
		mv "$work/ca.key" "$work/ca.crt" "$tls/"
	fi
	if [ -s "$tls/tls.crt" ] && openssl x509 -in "$tls/tls.crt" -noout -checkend 2592000 >/dev/null; then
		return
	fi
	key "$work/tls.key"
	openssl req -new -key "$work/tls.key" -subj /O=Leat/CN=tunnel -out "$work/tls.csr"
	printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\nauthorityKeyIdentifier=keyid\nsubjectAltName=%s\n' \
		"$names" >"$work/tls.ext"
	openssl x509 -req -in "$work/tls.csr" -CA "$tls/ca.crt" -CAkey "$tls/ca.key" -set_serial "$(serial)" -days 366 -sha256 -extfile "$work/tls.ext" \
		-out "$work/tls.crt" 2>"$work/said" || {
		cat "$work/said" >&2
		echo "openssl cannot make a certificate for $names; check LEAT_TLS_NAMES, such as DNS:hub.example.com,IP:192.0.2.7" >&2
		exit 1
	}
	chmod 0644 "$work/tls.crt" "$work/tls.key"
	rm -f "$tls/tls.crt"
	mv "$work/tls.key" "$work/tls.crt" "$tls/"
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
	if [ -s "$env" ]; then # an empty one may come from a shell that redirects to it
		echo "$env is there already, and may hold the only key of a database; to make secrets for a new hub, move it away first" >&2
		exit 1
	fi
	keys=$("${LEAT:-leat}" keys)
	certificate
	new=$(mktemp "$env.XXXXXX")
	trap 'rm -rf "$work" "$new"' EXIT
	cat >"$new" <<END
$keys
LEAT_DISTRIBUTOR_ADMIN_TOKEN=$admin
LEAT_REDIS_GITCACHE_PASSWORD=$gitcache
LEAT_REDIS_TUNNEL_PASSWORD=$tunnel
LEAT_POSTGRES_PASSWORD=$(random)
END
	mv "$new" "$env"
	echo "wrote $env" >&2
	;;
certificate)
	[ "$scheme" = redis ] || usage
	certificate
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
