// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// commit is a commit with the tree that it holds.
type commit struct {
	content.Commit
	tree string
}

func (c *catalogue) commit(id string) (commit, error) {
	data, err := c.whole(id, "commit")
	if err != nil {
		return commit{}, err
	}
	parsed, err := parseCommit(id, data)
	if err != nil {
		return commit{}, fmt.Errorf("read commit %s: %w", id, err)
	}
	return parsed, nil
}

// parseCommit reads headers up to an empty line, then the message. Lines that begin with a space belong to the header
// before them, such as a signature.
func parseCommit(id string, data []byte) (commit, error) {
	c := commit{Commit: content.Commit{ID: id}}
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if len(line) == 0 {
			break
		}
		name, value, _ := strings.Cut(string(line), " ")
		switch name {
		case "tree":
			c.tree = value
		case "parent":
			c.Parents = append(c.Parents, value)
		case "author":
			c.AuthorName, c.AuthorEmail, c.AuthorTime = parseSignature(value)
		case "committer":
			_, _, c.CommitTime = parseSignature(value)
		}
	}
	c.Message = string(data)
	if !idForm.MatchString(c.tree) {
		return commit{}, fmt.Errorf("%w: no tree", content.ErrDamaged)
	}
	return c, nil
}

// parseSignature reads "Name <address> seconds zone". Old commits lack some of that, which is no reason to refuse them.
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

// Modes of tree entries, without what tells permissions apart that Git does not know.
const (
	modeKind      = 0o170000
	modeFolder    = 0o040000
	modeSymlink   = 0o120000
	modeSubmodule = 0o160000
	executable    = 0o100
)

// entry is one line of a tree.
type entry struct {
	name string
	mode uint32
	id   string
}

func (e entry) folder() bool { return e.mode&modeKind == modeFolder }

func (e entry) kind() content.Kind {
	switch {
	case e.folder():
		return content.KindFolder
	case e.mode&modeKind == modeSymlink:
		return content.KindSymlink
	case e.mode&modeKind == modeSubmodule:
		return content.KindSubmodule
	case e.mode&executable != 0:
		return content.KindExecutable
	}
	return content.KindFile
}

// tree reads a tree that another object names, so that its absence is damage.
func (c *catalogue) tree(id string) ([]entry, error) {
	data, err := c.whole(id, "tree")
	if err != nil {
		return nil, fmt.Errorf("read tree: %w", damaged(err))
	}
	entries, err := parseTree(data, len(id)/2)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", id, err)
	}
	return entries, nil
}

// parseTree reads "<mode> <name>", NUL, and the id in so many bytes, for every entry.
func parseTree(data []byte, width int) ([]entry, error) {
	var entries []entry
	for len(data) > 0 {
		head, rest, found := bytes.Cut(data, []byte{0})
		mode, name, both := strings.Cut(string(head), " ")
		bits, err := strconv.ParseUint(mode, 8, 32)
		if !found || !both || err != nil || len(rest) < width {
			return nil, fmt.Errorf("%w: no tree entry after %d others", content.ErrDamaged, len(entries))
		}
		entries = append(entries, entry{name: name, mode: uint32(bits), id: hex.EncodeToString(rest[:width])})
		data = rest[width:]
	}
	return entries, nil
}
