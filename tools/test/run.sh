#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# run.sh NAME "PACKAGE…" [FLAG…] runs go test through gotestsum: a line for each package, and the failures again at the
# end. A failed test runs again, twice at most, and not if more than five failed or two goroutines raced: then the code is
# wrong. A test that passes the second time is printed as FLAKY. Below .test: NAME.xml (JUnit), NAME.events.json and
# NAME.flaky.txt. RERUNS=0 runs nothing again.
set -eu

name=$1 packages=$2
shift 2
mkdir -p .test
rm -f ".test/$name".*
reruns=
[ "${RERUNS:-2}" = 0 ] || reruns="--rerun-fails=${RERUNS:-2} --rerun-fails-max-failures=5 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race"
status=0
# shellcheck disable=SC2086 # reruns are flags
.bin/gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary skipped $reruns \
	--junitfile ".test/$name.xml" --jsonfile-timing-events ".test/$name.events.json" \
	--packages "$packages" -- "$@" || status=$?
CGO_ENABLED=0 go run ./test/runs/cmd/leat-runs ".test/$name.events.json"
exit $status
