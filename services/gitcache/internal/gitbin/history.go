// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// maxScanned bounds the commits that one call looks at: with a path that seldom changes it returns early, and the caller
// goes on from there.
const maxScanned = 5000

// maxLogBytes bounds the messages that one call returns.
const maxLogBytes = 4 << 20

// Log implements [content.Reader].
func (r *reader) Log(ctx context.Context, p content.LogParams) (content.Log, error) {
	if _, err := r.commit(p.From); err != nil {
		return content.Log{}, err
	}
	ids, err := r.history(ctx, p)
	if err != nil {
		return content.Log{}, fmt.Errorf("walk history: %w", err)
	}
	at := &tracker{reader: r, path: p.Path, ids: map[string]string{}}
	var log content.Log
	size := 0
	for i, id := range ids {
		if ctx.Err() != nil {
			return content.Log{}, context.Cause(ctx)
		}
		if len(log.Commits) == p.Limit || i == maxScanned || size > maxLogBytes {
			log.Next = p.Skip + i
			return log, nil
		}
		c, err := r.objects.commit(id)
		if err != nil {
			return content.Log{}, fmt.Errorf("walk history: %w", damaged(err))
		}
		touches, err := at.touches(c)
		if err != nil {
			return content.Log{}, err
		}
		if touches {
			log.Commits = append(log.Commits, c.Commit)
			size += len(c.Message)
		}
	}
	return log, nil
}

// history are the ids of the commits that one call looks at, newest first, and of the one after them.
func (r *reader) history(ctx context.Context, p content.LogParams) ([]string, error) {
	most := maxScanned + 1
	if p.Path == "" {
		most = min(most, p.Limit+1)
	}
	var ids []string
	err := r.program.lines(ctx, r.dir, '\n', func(id string) (bool, error) {
		ids = append(ids, id)
		return true, nil
	}, "rev-list", "--skip="+strconv.Itoa(p.Skip), "--max-count="+strconv.Itoa(most), "--end-of-options", p.From, "--")
	return ids, damage(err)
}

// damage marks failures of git that come from what the repository holds.
func damage(err error) error {
	if exit, ok := errors.AsType[*exitError](err); ok && exit.damaged() {
		return errors.Join(content.ErrDamaged, err)
	}
	return err
}

// tracker tells which commits change what is at a path.
type tracker struct {
	reader *reader
	path   string
	// ids are the mode and the id of what commits hold at path, empty where there is nothing: a file may become executable,
	// and stay the same object.
	ids map[string]string
}

// touches tells whether a commit holds something else at the path than each of its parents.
func (t *tracker) touches(c commit) (bool, error) {
	if t.path == "" {
		return true, nil
	}
	mine, err := t.idAt(c.ID, c.tree)
	if err != nil {
		return false, err
	}
	if len(c.Parents) == 0 {
		return mine != "", nil
	}
	for _, id := range c.Parents {
		theirs, err := t.idIn(id)
		if err != nil {
			return false, err
		}
		if theirs == mine {
			return false, nil
		}
	}
	return true, nil
}

func (t *tracker) idIn(id string) (string, error) {
	if known, ok := t.ids[id]; ok {
		return known, nil
	}
	c, err := t.reader.objects.commit(id)
	if err != nil {
		return "", fmt.Errorf("read commit %s: %w", id, damaged(err))
	}
	return t.idAt(id, c.tree)
}

func (t *tracker) idAt(id, root string) (string, error) {
	if known, ok := t.ids[id]; ok {
		return known, nil
	}
	e, err := t.reader.descend(root, t.path)
	if err != nil && !errors.Is(err, content.ErrPathNotFound) {
		return "", err
	}
	there := ""
	if e.id != "" {
		there = fmt.Sprintf("%o %s", e.mode, e.id)
	}
	t.ids[id] = there
	return there, nil
}

// Compare implements [content.Reader].
func (r *reader) Compare(ctx context.Context, p content.CompareParams) ([]content.Change, error) {
	base, err := r.sideOf(p.Base, p.Path)
	if err != nil {
		return nil, err
	}
	head, err := r.sideOf(p.Head, p.Path)
	if err != nil {
		return nil, err
	}
	if base == head || p.Limit == 0 {
		return nil, nil
	}
	c := &comparison{params: p}
	if c.prefix = p.Path; c.prefix != "" {
		c.prefix += "/"
	}
	err = r.program.lines(ctx, r.dir, 0, c.take, "diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv",
		"--end-of-options", base, head)
	if err != nil {
		return nil, fmt.Errorf("compare trees: %w", damage(err))
	}
	return c.changes, nil
}

// Empty trees are known to git without being in a repository.
const (
	emptyTree       = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	emptyTreeSHA256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
)

// sideOf returns the tree at path, an empty one where the commit has no folder there.
func (r *reader) sideOf(commit, path string) (string, error) {
	e, err := r.entryAt(commit, path)
	switch {
	case err != nil && !errors.Is(err, content.ErrPathNotFound):
		return "", err
	case err == nil && e.folder():
		return e.id, nil
	case len(commit) == len(emptyTreeSHA256):
		return emptyTreeSHA256, nil
	}
	return emptyTree, nil
}

// comparison collects what git prints of two trees: a description of what happened, then the path that it happened to.
type comparison struct {
	params  content.CompareParams
	prefix  string
	kind    content.ChangeKind // of the path that comes next; zero: a description does
	changes []content.Change
}

func (c *comparison) take(word string) (more bool, err error) {
	if c.kind == 0 {
		c.kind, err = parseChange(word)
		return true, err
	}
	path := c.prefix + word
	if path > c.params.After {
		c.changes = append(c.changes, content.Change{Path: path, Kind: c.kind})
	}
	c.kind = 0
	return len(c.changes) < c.params.Limit, nil
}

// parseChange reads ":<mode> <mode> <id> <id> <letter>".
func parseChange(word string) (content.ChangeKind, error) {
	words := strings.Fields(word)
	if len(words) != 5 {
		return 0, fmt.Errorf("git says %q of a change", word)
	}
	switch words[4] {
	case "A":
		return content.Added, nil
	case "D":
		return content.Deleted, nil
	}
	return content.Modified, nil
}
