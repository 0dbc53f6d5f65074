// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"context"
	"fmt"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// lister lists a tree as it is, without a selection.
type lister struct {
	reader   content.Reader
	place    *leaves.Place
	visits   *int // how many more entries may be read
	maxFiles int  // of the bundle
	room     int  // how many more leaves it may have
	listed   []leaves.Leaf
}

func (w *lister) add(ctx context.Context, prefix, tree string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("walk tree: more than %d levels at %q", leaves.MaxDepth, prefix)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	entries, err := w.reader.List(ctx, tree)
	if err != nil {
		return err
	}
	if *w.visits -= len(entries); *w.visits < 0 {
		return &leaves.UnsupportedError{
			Path: prefix, Reason: "comes after too much that has to be looked at for the dependencies of charts",
		}
	}
	for _, e := range entries {
		switch {
		case e.Kind == content.KindFolder:
			err = w.add(ctx, prefix+e.Name+"/", e.ID, depth-1)
		case e.Kind == content.KindSubmodule:
			err = &leaves.UnsupportedError{
				Path:   prefix + e.Name,
				Reason: "is a submodule in a chart that another one depends on, which is not followed",
			}
		case len(w.listed) == w.room:
			err = &bundle.LimitError{Limit: bundle.LimitFiles, Max: int64(w.maxFiles), Name: prefix + e.Name}
		default:
			w.listed = append(w.listed, leaves.Leaf{Path: prefix + e.Name, Kind: e.Kind, ID: e.ID, Place: w.place})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
