// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// The parsers are functions of the bytes that they are given. All that they return has been checked
// as far as this package relies on it: ids have the width of the object's own, and modes and names
// are there. Names are not judged: a tree may call a file "..", and package snapshot refuses it by
// name.

// commit is a commit with the tree that it holds.
type commit struct {
	content.Commit
	tree string
}

// parseCommit reads a tree, parents, other headers up to an empty line, and the message. Lines that
// begin with a space belong to the header before them, such as a signature. Tree and parents must
// be whole and at their places, because others are found by them. An author or a committer may be
// anything: old commits have odd ones.
func parseCommit(id string, data []byte) (commit, error) {
	c := commit{Commit: content.Commit{ID: id}}
	name, value, rest := cutHeader(data)
	if name != "tree" || !pack.IsName(value) || len(value) != len(id) {
		return commit{}, fmt.Errorf("%w: commit %s has no tree", content.ErrMalformed, id)
	}
	c.tree, data = value, rest
	for name, value, rest = cutHeader(data); name == "parent"; name, value, rest = cutHeader(data) {
		if !pack.IsName(value) || len(value) != len(id) {
			return commit{}, fmt.Errorf("%w: commit %s has a parent %.80q", content.ErrMalformed, id, value)
		}
		c.Parents, data = append(c.Parents, value), rest
	}
	for ; len(data) > 0 && data[0] != '\n'; name, value, rest = cutHeader(data) {
		switch name {
		case "author":
			c.AuthorName, c.AuthorEmail, c.AuthorTime = parseSignature(value)
		case "committer":
			_, _, c.CommitTime = parseSignature(value)
		}
		data = rest
	}
	c.Message = strings.TrimPrefix(string(data), "\n")
	return c, nil
}

// cutHeader returns the first line of data, cut at its first space, and the lines behind it.
func cutHeader(data []byte) (name, value string, rest []byte) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	name, value, _ = strings.Cut(string(line), " ")
	return name, value, rest
}

// parseSignature reads "Name <address> seconds zone". Old commits lack some of that, and that is
// not a reason to refuse them.
func parseSignature(text string) (name, email string, at time.Time) {
	open, end := strings.LastIndexByte(text, '<'), strings.LastIndexByte(text, '>')
	if open < 0 || end < open {
		return strings.TrimSpace(text), "", time.Time{}
	}
	name, email = strings.TrimSpace(text[:open]), text[open+1:end]
	words := strings.Fields(text[end+1:])
	if len(words) == 0 {
		return name, email, time.Time{}
	}
	seconds, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return name, email, time.Time{}
	}
	at = time.Unix(seconds, 0).UTC()
	if len(words) > 1 {
		if zone, err := time.Parse("-0700", words[1]); err == nil {
			at = at.In(zone.Location())
		}
	}
	return name, email, at
}

// parseTag returns the target of an annotated tag, and its kind as the tag gives it.
func parseTag(id string, data []byte) (target, kind string, err error) {
	name, target, rest := cutHeader(data)
	typeName, kind, _ := cutHeader(rest)
	if name != "object" || !pack.IsName(target) || len(target) != len(id) || typeName != "type" {
		return "", "", fmt.Errorf("%w: tag %s has no object", content.ErrMalformed, id)
	}
	return target, kind, nil
}

// Modes of tree entries. Git knows one bit of permissions.
const (
	modeKind      = 0o170000
	modeFolder    = 0o040000
	modeSymlink   = 0o120000
	modeSubmodule = 0o160000
	executable    = 0o100
)

// entry is one entry of a tree. Its zero value is nothing.
type entry struct {
	name, raw []byte // parts of the tree; raw is the id in bytes
	mode      uint32
}

func (e entry) id() string { return hex.EncodeToString(e.raw) }

func (e entry) isThere() bool { return e.raw != nil }

func (e entry) isFolder() bool { return e.mode&modeKind == modeFolder }

func (e entry) isSubmodule() bool { return e.mode&modeKind == modeSubmodule }

func (e entry) kind() content.Kind {
	switch {
	case e.isFolder():
		return content.KindFolder
	case e.mode&modeKind == modeSymlink:
		return content.KindSymlink
	case e.isSubmodule():
		return content.KindSubmodule
	case e.mode&executable != 0:
		return content.KindExecutable
	}
	return content.KindFile
}

// sortKey returns what Git orders the entries of a tree by. A file and a folder of one name have
// different keys.
func (e entry) sortKey() []byte {
	if e.isFolder() {
		return append(slices.Clip(e.name), '/')
	}
	return e.name
}

// tree is the bytes of a tree that were not parsed yet. Entries are parsed one by one: most readers
// look for one name.
type tree struct {
	rest  []byte
	width int // bytes of an id
}

// next returns the next entry: "<mode> <name>", NUL, and the id in bytes. It returns the zero entry
// at the end.
func (t *tree) next() (entry, error) {
	if len(t.rest) == 0 {
		return entry{}, nil
	}
	head, rest, ended := bytes.Cut(t.rest, []byte{0})
	digits, name, spaced := bytes.Cut(head, []byte{' '})
	mode, err := strconv.ParseUint(string(digits), 8, 32)
	if !ended || !spaced || err != nil || len(name) == 0 || len(rest) < t.width {
		return entry{}, fmt.Errorf("%w: an entry of a tree cannot be read", content.ErrMalformed)
	}
	e := entry{name: name, mode: uint32(mode), raw: rest[:t.width]}
	t.rest = rest[t.width:]
	return e, nil
}
