#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# The wget of the busybox image of the tests, by curl: those options of busybox' own that the charts use. A status of 400 or more is an error, which names it.
set -eu
output=/dev/null
while [ $# -gt 1 ]; do
	case $1 in
	-q) ;;
	-T) seconds=$2 && shift ;;
	-O) output=$2 && shift ;;
	--no-check-certificate) insecure=--insecure ;;
	*)
		echo "wget: unknown option $1" >&2
		exit 1
		;;
	esac
	shift
done
exec curl --silent --show-error --fail ${insecure:-} --max-time "${seconds:-900}" --output "$output" "$1"
