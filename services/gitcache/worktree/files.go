// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/ignore"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// commit is the id of the one commit that a folder stands for.
const commit = "worktree"

const (
	// gitIgnore is the name of Git's own ignore files.
	gitIgnore = ".gitignore"
	// maxIgnore bounds an ignore file, as snapshots bound theirs.
	maxIgnore = 256 << 10
	// chartsFolder is the folder of a chart that holds its dependencies.
	chartsFolder = "charts"
	executable   = 0o111
)

// errUnsupported is the error of methods that bundles do not need.
var errUnsupported = errors.New("a folder has no history")

// opener opens the same files for each reader.
type opener struct{ files *files }

// Open implements content.Opener.
func (o opener) Open(context.Context, string) (content.Reader, error) { return o.files, nil }

// files reads a folder as a mirror's only commit. The id of a tree or a file is its path; the
// root's is ".". No symbolic link is followed. It is for one goroutine.
type files struct {
	root *os.Root
	// chains are the rules of .gitignore files, by folder. Nil: the root is not a repository's.
	chains map[string]*ignore.Chain
}

var _ content.Reader = (*files)(nil)

func newFiles(root *os.Root) *files {
	f := &files{root: root}
	if _, err := root.Lstat(gitFolder); err == nil {
		f.chains = map[string]*ignore.Chain{}
	}
	return f
}

// Tree implements content.Reader.
func (f *files) Tree(_ context.Context, _, folder string) (string, error) {
	clean := path.Clean(folder) // "." for the root
	info, err := f.root.Lstat(clean)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "", &content.PathError{Path: folder, Want: "folder"}
	}
	return clean, err
}

// List implements content.Reader.
func (f *files) List(ctx context.Context, tree string) ([]content.Entry, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	rules, err := f.chain(tree)
	if err != nil {
		return nil, err
	}
	found, err := fs.ReadDir(f.root.FS(), tree)
	if err != nil {
		return nil, fmt.Errorf("read folder: %w", err)
	}
	var entries []content.Entry
	for _, e := range found {
		name := path.Join(tree, e.Name())
		if e.Name() == gitFolder || rules.Ignores(name, e.IsDir()) && !f.isPacked(name) {
			continue
		}
		kind, isContent, err := kindOf(e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since
		}
		if err != nil {
			return nil, fmt.Errorf("read folder: %w", err)
		}
		if isContent {
			entries = append(entries, content.Entry{Name: e.Name(), Kind: kind, ID: name})
		}
	}
	slices.SortFunc(entries, func(a, b content.Entry) int { return cmp.Compare(gitOrder(a), gitOrder(b)) })
	return entries, nil
}

// isPacked reports whether a file or folder is the folder charts of a chart, or lies directly in one.
func (f *files) isPacked(name string) bool {
	if path.Base(name) != chartsFolder {
		name = path.Dir(name)
	}
	if path.Base(name) != chartsFolder {
		return false
	}
	_, err := f.root.Lstat(path.Join(path.Dir(name), chartdep.ChartFile))
	return err == nil
}

// gitOrder returns the text by which Git orders the entries of a tree.
func gitOrder(e content.Entry) string {
	if e.Kind == content.KindFolder {
		return e.Name + "/"
	}
	return e.Name
}

// kindOf returns the kind of an entry. It returns false for what Git does not track.
func kindOf(e fs.DirEntry) (kind content.Kind, isContent bool, err error) {
	switch {
	case e.IsDir():
		return content.KindFolder, true, nil
	case e.Type() == fs.ModeSymlink:
		return content.KindSymlink, true, nil
	case !e.Type().IsRegular():
		return 0, false, nil
	}
	info, err := e.Info()
	if err == nil && info.Mode()&executable != 0 {
		return content.KindExecutable, true, nil
	}
	return content.KindFile, true, err
}

// chain returns Git's ignore rules for the entries of a folder. Nil: there are none.
func (f *files) chain(folder string) (*ignore.Chain, error) {
	if f.chains == nil {
		return nil, nil
	}
	if known, ok := f.chains[folder]; ok {
		return known, nil
	}
	var above *ignore.Chain
	prefix := strings.TrimPrefix(folder, ".")
	if prefix != "" {
		var err error
		if above, err = f.chain(path.Dir(folder)); err != nil {
			return nil, err
		}
	}
	text, err := f.rules(path.Join(folder, gitIgnore))
	if err != nil {
		return nil, err
	}
	chain := above
	if text != nil {
		chain = above.With(prefix, ignore.Parse(text))
	}
	f.chains[folder] = chain
	return chain, nil
}

// rules returns the text of an ignore file, or nil if there is none. Git does not follow a symbolic
// link there either.
func (f *files) rules(name string) ([]byte, error) {
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ignore file: %w", err)
	}
	if info.Size() > maxIgnore {
		return nil, fmt.Errorf("read ignore file: %s is longer than 256 KiB, which is the limit for ignore rules", name)
	}
	text, err := f.root.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read ignore file: %w", err)
	}
	return text, nil
}

// Blob implements content.Reader.
func (f *files) Blob(_ context.Context, id string) (content.File, error) {
	info, err := f.root.Lstat(id)
	if err != nil {
		return content.File{}, err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := f.root.Readlink(id)
		return content.File{Size: int64(len(target)), ReadCloser: io.NopCloser(strings.NewReader(target))}, err
	}
	if !info.Mode().IsRegular() {
		return content.File{}, fmt.Errorf("%s changed while it was read", id)
	}
	file, err := f.root.Open(id)
	if err != nil {
		return content.File{}, err
	}
	return content.File{Size: info.Size(), ReadCloser: file}, nil
}

// Absent implements content.Reader: everything is here.
func (f *files) Absent(context.Context, []string) ([]string, error) { return nil, nil }

// Close implements content.Reader. The files stay usable.
func (f *files) Close() error { return nil }

// Commit implements content.Reader.
func (f *files) Commit(context.Context, string) (content.Commit, error) {
	return content.Commit{}, errUnsupported
}

// Expand implements content.Reader.
func (f *files) Expand(context.Context, string) (string, error) { return "", errUnsupported }

// Object implements content.Reader.
func (f *files) Object(context.Context, string) (content.Object, error) {
	return content.Object{}, errUnsupported
}

// File implements content.Reader.
func (f *files) File(context.Context, string, string) (content.File, error) {
	return content.File{}, errUnsupported
}

// Log implements content.Reader.
func (f *files) Log(context.Context, content.LogParams) (content.Log, error) {
	return content.Log{}, errUnsupported
}

// Compare implements content.Reader.
func (f *files) Compare(context.Context, content.CompareParams) ([]content.Change, error) {
	return nil, errUnsupported
}
