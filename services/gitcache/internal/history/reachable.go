// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// Reachable gives every object that the tips reach, themselves included, to visit, which reports
// whether it had not been given that object before. Tips that are absent are passed over, and so
// are blobs that a partial mirror lacks. Anything else that is absent is [content.ErrDamaged].
func (r *Reader) Reachable(ctx context.Context, tips []string, visit func(id string) (isNew bool)) error {
	for _, tip := range tips {
		kind, err := r.objects.Kind(tip)
		if err == nil && kind != "" {
			err = r.reach(ctx, tip, visit)
		}
		if err != nil {
			return fmt.Errorf("walk from %s: %w", tip, damaged(err))
		}
	}
	return nil
}

// reach visits a tip and all behind it. Commits wait in a list, because a history is deep.
func (r *Reader) reach(ctx context.Context, tip string, visit func(id string) bool) error {
	for waiting := []string{tip}; len(waiting) > 0; {
		id := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		kind, err := r.objects.Kind(id)
		if err == nil && kind == "" {
			err = fmt.Errorf("%w: %s is missing", content.ErrDamaged, id)
		}
		if err == nil && visit(id) {
			waiting, err = r.follow(ctx, id, kind, waiting, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follow continues from a visited object: it visits trees, and appends commits and the targets of
// tags to waiting.
func (r *Reader) follow(ctx context.Context, id, kind string, waiting []string, visit func(id string) bool) ([]string, error) {
	switch kind {
	case kindCommit:
		c, err := r.namedCommit(ctx, id)
		if err == nil && visit(c.tree) {
			err = r.reachTree(ctx, c.tree, maxDepth, visit)
		}
		return append(waiting, c.Parents...), err
	case kindTag:
		data, err := r.readNamed(ctx, id, kindTag)
		if err != nil {
			return nil, err
		}
		target, targetKind, err := parseTag(id, data)
		if err == nil && targetKind == kindBlob {
			err = r.reachBlob(target, visit)
		} else {
			waiting = append(waiting, target)
		}
		return waiting, err
	case kindTree: // a tag may name one
		return waiting, r.reachTree(ctx, id, maxDepth, visit)
	}
	return waiting, nil
}

// reachTree goes through a tree that was visited.
func (r *Reader) reachTree(ctx context.Context, id string, depth int, visit func(id string) bool) error {
	if depth == 0 {
		return fmt.Errorf("%w: more than %d levels of trees", content.ErrMalformed, maxDepth)
	}
	t, err := r.openTree(ctx, id)
	if err != nil {
		return err
	}
	for {
		e, err := t.next()
		switch {
		case err != nil || !e.isThere():
			return err
		case e.isSubmodule():
		case !e.isFolder():
			err = r.reachBlob(e.id(), visit)
		default:
			if id := e.id(); visit(id) {
				err = r.reachTree(ctx, id, depth-1, visit)
			}
		}
		if err != nil {
			return err
		}
	}
}

// reachBlob visits a blob, which is not read. If a blob must be there, copying the visited objects
// shows whether it is.
func (r *Reader) reachBlob(id string, visit func(id string) bool) error {
	if r.params.Partial {
		if kind, err := r.objects.Kind(id); err != nil || kind == "" {
			return err
		}
	}
	visit(id)
	return nil
}
