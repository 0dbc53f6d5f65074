#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# root.sh FOLDER PROGRAM|FOLDER...: makes a root folder for an image, with busybox, as images of Alpine have it, and these programs of the machine, each
# with the libraries that it needs.
set -eu
root=$1
shift
for folder in bin sbin etc tmp usr/bin usr/sbin usr/local/bin lib64 run var root; do mkdir -p "$root/$folder"; done
chmod 1777 "$root/tmp"
ln -sfn ../run "$root/var/run"
cp /bin/busybox "$root/bin/busybox"
for name in $(/bin/busybox --list); do [ -e "$root/bin/$name" ] || ln -s busybox "$root/bin/$name"; done
ln -sfn ../../bin/busybox "$root/usr/bin/env"
for program; do
	mkdir -p "$root$(dirname "$program")"
	cp -aL "$program" "$root$(dirname "$program")/"
	find "$program" -type f \( -perm -u+x -o -name '*.so*' \)
done | while read -r file; do ldd "$file" 2>/dev/null || true; done | grep -oE '/[^ ]+\.so[^ ]*' | sort -u | while read -r library; do
	[ -e "$root$library" ] || { mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"; }
done
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
