#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# quick.sh prints the packages of `make quick`: those whose test programs link none of the equipment that starts a
# server, such as a Redis or a Git host, or that compiles and runs a program of ours. Go itself knows what they link, so
# no list of packages can be out of date. Two packages compile programs without that equipment. The rules of the tree
# are left out, because they read what Git tracks, which Go does not see: their stored result may be old.
set -eu
prefix=github.com/leatdev/leat
servers="$prefix/internal/(runtime/localkube|testkit/(gittest|giteatest|nginxtest|postgrestest|program|redistest|registrytest|vaulttest))"
without="$prefix/(render/wasm|test/release|test/arch)"
CGO_ENABLED=0 go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}} {{end}}' work |
	grep -E '^[^ ]*\.test ' | grep -vE "^$without\.test " | grep -vE " $servers " | sed 's/\.test .*//'
