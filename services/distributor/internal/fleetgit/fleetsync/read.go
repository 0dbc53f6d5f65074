// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// nodeBudget bounds what all documents of a commit hold together once aliases are expanded.
const nodeBudget = 4_000_000

// contentError means that a commit holds more than may be read.
type contentError struct{ message string }

// Error implements error.
func (e *contentError) Error() string { return e.message }

// read returns the documents of a snapshot, in the order of the files. The error is a *contentError
// if nothing of the commit can be used, and otherwise means that the content cannot be read now.
func read(ctx context.Context, bundles Bundles, parser Parser, source *catalog.FleetSource, snapshot catalog.Snapshot) ([]Item, error) {
	if snapshot.ContentSize > maxContent {
		return nil, &contentError{fmt.Sprintf("the folder has %d bytes; at most %d are allowed", snapshot.ContentSize, maxContent)}
	}
	from := source.Spec.Source.Normal()
	blob, err := bundles.Open(ctx, plan.Bundle{
		Digest: snapshot.Digest, Commit: snapshot.Commit, Version: snapshot.Version, Source: from, Subpath: from.Subpath(),
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }() // only read
	content, err := bundle.Decompress(blob, snapshot.ContentSize)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // only read
	f := folder{ctx: ctx, source: source, parser: parser, below: from.Subpath(), budget: nodeBudget}
	if err := f.read(bundle.NewReader(digest.NewVerifier(content, snapshot.Digest), bundle.Limits{})); err != nil {
		return nil, err
	}
	return settled(source, f.items), nil
}

// folder reads the files of documents of one bundle.
type folder struct {
	ctx    context.Context //nolint:containedctx // lives as long as the reading
	source *catalog.FleetSource
	parser Parser
	// below is the folder of the documents in the bundle; empty: its root.
	below  string
	items  []Item
	files  int
	bytes  int64
	budget int
}

// read reads a bundle to its end, by which it is verified.
func (f *folder) read(in *bundle.Reader) error {
	for {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := context.Cause(f.ctx); err != nil {
			return err
		}
		name, ok := f.documents(entry.Name)
		if !ok {
			continue
		}
		if err := f.file(name, entry, in); err != nil {
			return err
		}
	}
}

// documents returns the name of a file below the folder, and whether it holds documents.
func (f *folder) documents(name string) (string, bool) {
	if f.below != "" {
		below, ok := strings.CutPrefix(name, f.below+"/")
		if !ok {
			return "", false
		}
		name = below
	}
	return name, slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(name)))
}

func (f *folder) file(name string, entry bundle.Entry, content io.Reader) error {
	f.files++
	f.bytes += entry.Size
	switch {
	case f.files > MaxFiles:
		return &contentError{fmt.Sprintf("the folder has more than %d files of documents", MaxFiles)}
	case f.bytes > MaxBytes:
		return &contentError{fmt.Sprintf("the documents have more than %d bytes together", MaxBytes)}
	case entry.Target != "":
		f.items = append(f.items, Item{Position: name, Problem: "is a symbolic link; links are not followed"})
		return nil
	case entry.Size > MaxFileBytes:
		f.items = append(f.items, Item{Position: name, Problem: fmt.Sprintf("has %d bytes; at most %d are allowed; split the file", entry.Size, MaxFileBytes)})
		return nil
	}
	f.items = append(f.items, f.parser.Parse(f.source, name, content, &f.budget)...)
	if len(f.items) > MaxDocuments {
		return &contentError{fmt.Sprintf("the folder has more than %d documents", MaxDocuments)}
	}
	return nil
}

// settled returns the items with those refused that are of kinds that the source may not write, or of
// objects that an earlier one describes. They stay known, so that their objects are not removed.
func settled(source *catalog.FleetSource, items []Item) []Item {
	first := make(map[catalog.Key]string, len(items))
	for i := range items {
		item := &items[i]
		if item.Object == nil || item.Problem != "" {
			continue
		}
		key := item.Object.Key()
		before, isSecond := first[key]
		switch {
		case isSecond:
			item.Problem = fmt.Sprintf("%s is described twice; first at %s", key, before)
		case !source.Spec.Writes(key.Kind):
			item.Problem = fmt.Sprintf("the fleet source does not write objects of kind %s: see its spec.kinds", key.Kind)
		}
		if !isSecond {
			first[key] = item.Position
		}
	}
	return items
}
