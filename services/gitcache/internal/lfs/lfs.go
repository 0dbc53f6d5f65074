// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package lfs gets the content of Git LFS pointers.
//
// A pointer is a small file in Git that names the content which belongs there, by SHA-256 and
// length. The content itself is kept by an LFS server beside the repository. As with the repository
// itself, exactly one replica, the holder of the lease, talks to that server ([Objects]); what it
// got stays on disk for as long as the repository exists ([Store]), and the other replicas copy it
// ([Copier]).
package lfs

import (
	"bufio"
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// MaxPointerBytes is the length from which on a file is no pointer, whatever it holds.
const MaxPointerBytes = 1024

const version = "https://git-lfs.github.com/spec/v1"

var (
	// ErrNotPointer means that a file is ordinary content.
	ErrNotPointer = errors.New("not an lfs pointer")
	// ErrExtended means that a file is a pointer whose content a program of the user's has to
	// transform.
	ErrExtended = errors.New("lfs pointer with extensions")
)

// Pointer names content. It is a comparable value.
type Pointer struct {
	OID  string // SHA-256 of the content: 64 lower-case hexadecimal digits
	Size int64  // of the content in bytes
}

var oidForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Valid reports whether the pointer can name content.
func (p Pointer) Valid() bool { return oidForm.MatchString(p.OID) && p.Size >= 0 }

// Parse reads a whole file. Like git-lfs it overlooks carriage returns and empty lines, and nothing
// else: what git-lfs would leave in the worktree as it is, is ErrNotPointer.
func Parse(file []byte) (Pointer, error) {
	if len(file) >= MaxPointerBytes || !bytes.HasPrefix(file, []byte("version ")) {
		return Pointer{}, ErrNotPointer
	}
	lines := bufio.NewScanner(bytes.NewReader(file))
	var values []string
	extended := false
	keys := []string{"version", "oid", "size"}
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		key, value, found := strings.Cut(lines.Text(), " ")
		if len(values) == 1 && strings.HasPrefix(key, "ext-") {
			extended = true
			continue
		}
		if !found || len(values) == len(keys) || key != keys[len(values)] {
			return Pointer{}, ErrNotPointer
		}
		values = append(values, value)
	}
	if len(values) != len(keys) || values[0] != version {
		return Pointer{}, ErrNotPointer
	}
	p, ok := pointer(values[1], values[2])
	switch {
	case !ok:
		return Pointer{}, ErrNotPointer
	case extended:
		return Pointer{}, ErrExtended
	}
	return p, nil
}

func pointer(oid, size string) (Pointer, bool) {
	hex, ok := strings.CutPrefix(oid, "sha256:")
	n, err := strconv.ParseInt(size, 10, 64)
	p := Pointer{OID: hex, Size: n}
	return p, ok && err == nil && p.Valid()
}
