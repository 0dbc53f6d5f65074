// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/artifactstore"
	"github.com/leatdev/leat/services/gitcache/internal/backend"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/kinds"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// registry is an upstream with one artifact.
type registry struct {
	mirrors artifact.Mirrors
	digest  string
	err     error
}

func (r *registry) Check(mirror.Definition) error { return nil }

func (r *registry) Enter(context.Context, mirror.Definition) (func(), error) { return func() {}, nil }

func (r *registry) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	if r.err != nil {
		return mirror.Content{}, r.err
	}
	refs := mirror.Refs{{Name: "refs/tags/1.0.0", Object: r.digest, Commit: r.digest}}
	return r.mirrors.Accept(ctx, p, mirror.Content{Refs: refs}, nil)
}

func (r *registry) Fill(ctx context.Context, p mirror.FetchParams, ids []string) (mirror.Content, error) {
	for _, text := range ids {
		id, err := artifact.ParseID(text)
		if err != nil {
			return mirror.Content{}, err
		}
		staged, err := r.mirrors.Stage(ctx, p.Definition.UID, id, func(s artifact.Sink) error {
			return s.Add(bundle.Entry{Name: "a", Size: 1}, bytes.NewReader([]byte("x")))
		})
		if err != nil {
			return mirror.Content{}, err
		}
		err = staged.Keep()
		staged.Discard()
		if err != nil {
			return mirror.Content{}, err
		}
	}
	return r.mirrors.Amend(p, p.Have, nil)
}

func (r *registry) Pin(_ context.Context, p mirror.FetchParams, _ []string) (mirror.Content, error) {
	return p.Have, nil
}

type subject struct {
	*kinds.Backend
	registry *registry
	dir      string
}

func open(t *testing.T, dir string) *subject {
	t.Helper()
	git, err := gogit.New(backend.Config{
		Dir: filepath.Join(dir, "mirrors"), Guard: dialguard.Guard{AllowLocal: true}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := artifactstore.New(artifactstore.Params{Dir: filepath.Join(dir, "artifacts"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{mirrors: store, digest: "aa00000000000000000000000000000000000000000000000000000000000000"}
	return &subject{
		Backend:  kinds.New(kinds.Params{Git: git, Artifacts: store, Upstreams: map[upstream.Type]kinds.Upstream{upstream.TypeOCI: r}}),
		registry: r, dir: dir,
	}
}

func params(def mirror.Definition, have mirror.Content) mirror.FetchParams {
	return mirror.FetchParams{Definition: def, Have: have, Epoch: 1, Guard: func() error { return nil }}
}

// TestATypeThatChanges serves the mirror of the old kind until one of the new kind is there.
func TestATypeThatChanges(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"a": "git"})
	s := open(t, t.TempDir())
	git := mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{Type: upstream.TypeGit, URL: repo.URL()}}
	oci := mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{Type: upstream.TypeOCI, URL: "oci://r.invalid/demo"}}

	c, err := s.Fetch(t.Context(), params(git, mirror.Content{}))
	if err != nil {
		t.Fatal(err)
	}
	want := func(s *subject, commit, text string) {
		t.Helper()
		r, err := s.Open(t.Context(), "uid-1")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		f, err := r.File(t.Context(), commit, "a")
		if err != nil {
			t.Fatalf("%s: %v", commit, err)
		}
		if data, err := io.ReadAll(f); err != nil || string(data) != text {
			t.Errorf("got %q (%v), want %q", data, err, text)
		}
	}
	want(s, commit, "git")
	down := errors.New("down")
	s.registry.err = down
	if _, err := s.Fetch(t.Context(), params(oci, c)); !errors.Is(err, down) {
		t.Errorf("got %v, want %v", err, down)
	}
	want(s, commit, "git")
	if _, err := s.Fill(t.Context(), params(oci, c), []string{s.registry.digest}); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v, want no mirror of this kind", err)
	}

	s.registry.err = nil
	if c, err = s.Fetch(t.Context(), params(oci, c)); err != nil {
		t.Fatal(err)
	}
	if c, err = s.Fill(t.Context(), params(oci, c), []string{s.registry.digest}); err != nil {
		t.Fatal(err)
	}
	want(s, s.registry.digest, "x")
	again := open(t, s.dir)
	if got, err := again.Load(t.Context(), "uid-1"); err != nil || got.Fingerprint() != c.Fingerprint() {
		t.Errorf("got %+v (%v) after a restart, want %+v", got, err, c)
	}
	want(again, s.registry.digest, "x")
	if stored := again.Stored(); len(stored) != 1 || again.Usage().Bytes != stored[0].Bytes {
		t.Errorf("got %v, want one mirror", stored)
	}

	follower := open(t, t.TempDir())
	if _, err := follower.Fetch(t.Context(), params(git, mirror.Content{})); err != nil {
		t.Fatal(err)
	}
	copyTo(t, again, follower, c)
	want(follower, s.registry.digest, "x")

	if c, err = again.Fetch(t.Context(), params(git, c)); err != nil {
		t.Fatal(err)
	}
	want(again, commit, "git")
	copyTo(t, again, follower, c)
	want(follower, commit, "git")
	if err := follower.Remove(t.Context(), "uid-1"); err != nil || len(follower.Stored()) != 0 {
		t.Errorf("got %v (%v), want nothing left", follower.Stored(), err)
	}
}

func copyTo(t *testing.T, from, to *subject, c mirror.Content) {
	t.Helper()
	generation, files, err := from.Export(t.Context(), "uid-1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = to.Adopt(t.Context(), "uid-1", mirror.Copy{Content: c, Generation: generation, Files: files, Fingerprint: c.Fingerprint()},
		func(ctx context.Context, f mirror.File) (io.ReadCloser, error) {
			return from.OpenFile(ctx, "uid-1", generation, f.Name)
		})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTypesWithoutAnUpstream(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	helm := mirror.Definition{Name: "c", UID: "uid-2", Definition: upstream.Definition{Type: upstream.TypeHelm, URL: "https://h.invalid"}}
	if field, ok := errors.AsType[*mirror.FieldError](s.Check(helm)); !ok || field.Field != "type" {
		t.Errorf("got %v, want the type refused", s.Check(helm))
	}
	if _, err := s.Fetch(t.Context(), params(helm, mirror.Content{})); err == nil {
		t.Error("got no error")
	} else if _, ok := errors.AsType[*mirror.UpstreamError](err); !ok {
		t.Errorf("got %v, want a state", err)
	}
}
