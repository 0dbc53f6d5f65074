// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package worktree bundles folders of this machine as gitcache bundles commits: with the code that
// selects, checks and packs what mirrors hold. The command line renders from such bundles what a
// cluster would get after a push.
//
// The content comes from the files, whether they are committed or not. In a Git repository, the
// files that its .gitignore files name are left out, since a commit has them only if a person
// insisted; other ignore settings of Git are not read. The folder charts of a chart counts even if
// it is ignored: helm dependency build puts there what gitcache packs for a commit. Git's own files
// never count, nor do sockets, pipes and devices. A submodule is the folder that is checked out.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// gitFolder is the name of Git's own folder, and of the file in its place in worktrees and
// submodules.
const gitFolder = ".git"

// Locate returns the root of the Git repository that holds a folder, and the folder's path from
// there, with forward slashes. Outside of repositories the root is the folder itself, and the path is
// "".
func Locate(folder string) (root, path string, err error) {
	absolute, err := filepath.Abs(folder)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil {
		return "", "", err
	}
	if info, err := os.Stat(absolute); err != nil {
		return "", "", err
	} else if !info.IsDir() {
		return "", "", &os.PathError{Op: "read", Path: folder, Err: errors.New("is a file, want a folder")}
	}
	for root := absolute; ; {
		if _, err := os.Lstat(filepath.Join(root, gitFolder)); err == nil {
			path, err := filepath.Rel(root, absolute)
			if path == "." {
				path = ""
			}
			return root, filepath.ToSlash(path), err
		}
		above := filepath.Dir(root)
		if above == root {
			return absolute, "", nil
		}
		root = above
	}
}

// Bundle is the content of a source.
type Bundle struct {
	// Tar is the canonical tar. Its owner closes it.
	Tar io.ReadCloser
	// Folder is where the source's path is inside the bundle; "" is the bundle's root.
	Folder string
}

// Read bundles what a source selects of the folder root, which stands for its repository. The
// source's ref is ignored. The bundle is in memory, compressed. Errors of the content are
// *reason.Problem.
func Read(ctx context.Context, root string, source *typev1.Source) (Bundle, error) {
	selected, err := selection.New(selection.Spec{
		Path: source.GetPath(), Root: source.GetRoot(), Folders: source.GetFolders(), Files: source.GetFiles(),
		Include: source.GetInclude(), Exclude: source.GetExclude(),
	})
	if err != nil {
		return Bundle{}, explain(err)
	}
	folder, err := os.OpenRoot(root)
	if err != nil {
		return Bundle{}, err
	}
	defer func() { _ = folder.Close() }() // only read
	temporary, err := os.MkdirTemp("", "leat-bundle-")
	if err != nil {
		return Bundle{}, fmt.Errorf("make folder for bundle: %w", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }() // it is empty
	store := casmem.New(casmem.Config{})
	builder, err := snapshot.NewBuilder(snapshot.Params{
		Mirrors: opener{newFiles(folder)}, Store: store, Index: snapshot.NewIndex(), TempDir: temporary,
		Logger: slog.New(slog.DiscardHandler), Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
	})
	if err != nil {
		return Bundle{}, err
	}
	found, err := builder.Resolve(ctx, snapshot.Folder{UID: root, Commit: commit, Selection: selected, CompletesCharts: true})
	if err != nil {
		return Bundle{}, explain(err)
	}
	blob, err := store.Open(ctx, found.Digest)
	if err != nil {
		return Bundle{}, err
	}
	tar, err := bundle.Decompress(blob, found.ContentSize)
	if err != nil {
		return Bundle{}, err
	}
	return Bundle{Tar: tar, Folder: strings.TrimPrefix(strings.TrimPrefix(selected.Path(), selected.Base()), "/")}, nil
}

// explain returns an error of the content as a *reason.Problem, and others as they are.
func explain(err error) error {
	if field, ok := errors.AsType[*selection.FieldError](err); ok {
		return reason.Errorf(reason.FieldInvalid, "%s: %s", field.Field, strings.TrimSuffix(field.Reason, "."))
	}
	if limit, ok := errors.AsType[*bundle.LimitError](err); ok {
		return reason.Errorf(reason.BundleTooLarge, "the folder exceeds the limit of %d %s at %q; split it, or leave some out with exclude or %s",
			limit.Max, limit.Limit, limit.Name, selection.IgnoreFile)
	}
	if bad, ok := errors.AsType[*leaves.UnsupportedError](err); ok {
		return reason.Errorf(reason.ContentUnsupported, "%q %s", bad.Path, bad.Reason)
	}
	if bad, ok := errors.AsType[*chartdep.UnsupportedError](err); ok {
		return reason.Errorf(reason.ContentUnsupported, "the dependencies of a chart cannot be packed: %s: %s", bad.File, strings.TrimSuffix(bad.Said, "."))
	}
	if gone, ok := errors.AsType[*chartdep.UnavailableError](err); ok {
		return reason.Errorf(reason.ChartDependencyUnavailable, "the dependency %s of %s, from %s, is not available: %s",
			strings.TrimSpace(gone.Name+" "+gone.Version), gone.File, gone.URL, strings.TrimSuffix(gone.Said, "."))
	}
	if empty, ok := errors.AsType[*snapshot.EmptyError](err); ok {
		return reason.Errorf(reason.PathNotFound, "include, exclude and the ignore files leave nothing of the folder %q", empty.Folder)
	}
	if path, ok := errors.AsType[*content.PathError](err); ok {
		return reason.Errorf(reason.PathNotFound, "there is no %s %q; the path is relative to the repository's root", path.Want, path.Path)
	}
	return err
}
