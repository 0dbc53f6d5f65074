#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target of the workspace, one after the other, each for the given time: tools/fuzz.sh 30s [flags of go test].
# A find is kept under testdata/fuzz of its package, where `make test` sees it from then on.
set -eu
time=$1
shift

found=""
for file in $(grep -rl --include='*_test.go' '^func Fuzz' bench cli internal render services test); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file"); do
		echo "==> $target in $(dirname "$file"), $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$@" "./$(dirname "$file")" || found="$found $target"
	done
done
[ -z "$found" ] || { echo "fuzz: these targets failed:$found" >&2; exit 1; }
