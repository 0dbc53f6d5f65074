// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/history"
)

// inEachFormat runs a test on an empty repository with names of SHA-1, and on one with names of
// SHA-256.
func inEachFormat(t *testing.T, test func(*testing.T, *gittest.Repo)) {
	t.Helper()
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			repo := gittest.New(t).Repo(t, "demo")
			if err := errors.Join(os.RemoveAll(repo.Dir()), os.Mkdir(repo.Dir(), 0o700)); err != nil {
				t.Fatal(err)
			}
			repo.Git(t, "init", "--quiet", "--bare", "--object-format="+format, "--initial-branch=main", repo.Dir())
			test(t, repo)
		})
	}
}

// packAll makes one pack of all objects.
func packAll(t *testing.T, repo *gittest.Repo) {
	t.Helper()
	repo.Git(t, "repack", "-a", "-d", "-q")
}

// openRepo opens the packs of a repository until the test ends.
func openRepo(t *testing.T, repo *gittest.Repo) *history.Reader {
	t.Helper()
	r, err := history.Open(repo.Dir(), history.Params{Large: func(_ context.Context, id string) (content.File, error) {
		blob := repo.GitRaw(t, "cat-file", "blob", id)
		return content.File{Size: int64(len(blob)), ReadCloser: io.NopCloser(strings.NewReader(blob))}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// leaf is an entry with its content.
type leaf struct {
	Kind    content.Kind
	Content string
}

// leaves reads the folder that a commit holds at path.
func leaves(t *testing.T, r content.Reader, commit, path string) map[string]leaf {
	t.Helper()
	tree, err := r.Tree(t.Context(), commit, path)
	if err != nil {
		t.Fatal(err)
	}
	all, last := map[string]leaf{}, ""
	err = walk(t.Context(), r, tree, "", func(e entry) error {
		if e.path <= last {
			t.Errorf("got %q after %q, want rising paths", e.path, last)
		}
		last = e.path
		all[e.path] = leaf{e.kind, string(e.body)}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// entry is the entry of a tree at a path, with its content; a submodule has none.
type entry struct {
	path string
	kind content.Kind
	body []byte
}

// walk visits all that is no folder, depth first, which Git's order of names makes rising paths.
func walk(ctx context.Context, r content.Reader, tree, prefix string, visit func(entry) error) error {
	entries, err := r.List(ctx, tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := prefix + e.Name
		if e.Kind == content.KindFolder {
			err = walk(ctx, r, e.ID, path+"/", visit)
		} else {
			err = visitLeaf(ctx, r, e, path, visit)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func visitLeaf(ctx context.Context, r content.Reader, e content.Entry, path string, visit func(entry) error) error {
	if e.Kind == content.KindSubmodule {
		return visit(entry{path: path, kind: e.Kind})
	}
	f, err := r.Blob(ctx, e.ID)
	if err != nil {
		return err
	}
	body, err := readFile(f)
	return errors.Join(err, visit(entry{path: path, kind: e.Kind, body: body}))
}

// readFile reads a file whose size has to be right.
func readFile(f content.File) ([]byte, error) {
	body := bytes.NewBuffer(make([]byte, 0, f.Size+bytes.MinRead))
	_, err := body.ReadFrom(f)
	if err = errors.Join(err, f.Close()); err == nil && int64(body.Len()) != f.Size {
		err = fmt.Errorf("got %d bytes, want %d", body.Len(), f.Size)
	}
	return body.Bytes(), err
}
