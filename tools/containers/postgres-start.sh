#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# The entry point of the PostgreSQL image of the tests. At its first start it does what the official image does: a server that listens on a socket alone
# makes the database, ends, and the real one begins.
set -eu
: "${POSTGRES_USER:=postgres}" "${POSTGRES_DB:=$POSTGRES_USER}"
mkdir -p "$PGDATA" && chmod 0700 "$PGDATA"
if ! [ -s "$PGDATA/PG_VERSION" ]; then
	password=$(mktemp)
	if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE"); fi
	printf '%s\n' "$POSTGRES_PASSWORD" >"$password"
	# shellcheck disable=SC2086 # the arguments are meant to split
	initdb --username="$POSTGRES_USER" --pwfile="$password" ${POSTGRES_INITDB_ARGS:-} >/dev/null
	rm "$password"
	printf '\nhost all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
	pg_ctl -w start -o "-c listen_addresses='' -k /run/postgresql" >/dev/null
	[ "$POSTGRES_DB" = postgres ] || PGPASSWORD=$POSTGRES_PASSWORD createdb -h /run/postgresql -U "$POSTGRES_USER" "$POSTGRES_DB"
	pg_ctl -m fast -w stop >/dev/null
fi
unset POSTGRES_PASSWORD
exec "$@" -c listen_addresses='*' -c unix_socket_directories=/run/postgresql
