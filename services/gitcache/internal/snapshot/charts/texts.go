// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// maxChartTexts bounds the bytes of the files that are read to find out what charts lack. Reading
// YAML takes a second for some ten megabytes.
const maxChartTexts = 16 << 20

// textReader reads the files of charts that list their dependencies.
type textReader struct {
	mirrors *leaves.Reader
	bytes   int // that were read
}

// check returns a *leaves.AbsentError where a partial mirror lacks files that have to be read.
func (r *textReader) check(ctx context.Context, charts []*chart) error {
	var texts []leaves.Leaf
	for _, one := range charts {
		texts = append(texts, one.texts()...)
	}
	return r.mirrors.Check(ctx, texts)
}

// read reads the chart's files. ok is false for files that Helm could not read: what renders the chart
// reports that.
func (r *textReader) read(ctx context.Context, one *chart) (read chartdep.Chart, ok bool, err error) {
	texts := chartdep.Texts{}
	for _, l := range one.texts() {
		text, err := r.readLeaf(ctx, l)
		if err != nil {
			return read, false, err
		}
		_, name := splitPath(l.Path)
		texts[name] = text
	}
	read, err = chartdep.Read(texts)
	if errors.Is(err, chartdep.ErrUnreadable) {
		return read, false, nil
	}
	return read, err == nil, err
}

// readLeaf returns the text of a file, as much of it as chartdep needs to refuse one that is too long.
func (r *textReader) readLeaf(ctx context.Context, l leaves.Leaf) ([]byte, error) {
	from, err := r.mirrors.Open(ctx, l.UID)
	if err != nil {
		return nil, err
	}
	file, err := from.Blob(ctx, l.ID)
	if err != nil {
		return nil, r.mirrors.Blame(l.Place, fmt.Errorf("read %q: %w", l.Path, err))
	}
	text, _, err := leaves.ReadText(file)
	if err != nil {
		return nil, r.mirrors.Blame(l.Place, fmt.Errorf("read %q: %w", l.Path, err))
	}
	if r.bytes += len(text); r.bytes > maxChartTexts {
		return nil, &chartdep.UnsupportedError{
			File: l.Path,
			Said: "It comes after too many charts with long files. Select fewer charts, or shorten Chart.yaml.",
		}
	}
	return text, nil
}

// packedNames returns whether the chart's folder charts holds a chart of a name: a folder whose
// Chart.yaml has the name, or an archive.
func (r *textReader) packedNames(ctx context.Context, one *chart) (func(name string) bool, error) {
	in := strings.TrimPrefix(one.at+"/"+chartsFolder, "/")
	names := map[string]bool{}
	var archives []string
	for _, l := range below(one.files, in) {
		inside := strings.TrimPrefix(l.Path, in+"/")
		first, rest, isBelow := strings.Cut(inside, "/")
		switch {
		case !isBelow && path.Ext(inside) == ".tgz":
			archives = append(archives, inside)
		case rest == chartdep.ChartFile && l.IsFile():
			sub := &chart{at: in + "/" + first, files: below(one.files, in+"/"+first), place: l.Place}
			if err := r.mirrors.Check(ctx, sub.texts()); err != nil {
				return nil, err
			}
			read, ok, err := r.read(ctx, sub)
			if err != nil {
				return nil, err
			}
			if ok {
				names[read.Name] = true
			}
		}
	}
	return func(name string) bool {
		return names[name] || slices.ContainsFunc(archives, func(file string) bool { return chartdep.IsPackedAs(file, name) })
	}, nil
}
