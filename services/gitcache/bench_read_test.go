// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"io"
	"testing"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// BenchmarkRead asks a mirror of 110,000 objects what callers ask, each time with a reader of its
// own, as a call has it. The peer is the other back end on a mirror of the same content.
func BenchmarkRead(b *testing.B) {
	repo := gittest.New(b).Repo(b, "demo")
	h := histories["large"]
	h.generate(b, repo)
	first := repo.Git(b, "rev-list", "--max-parents=0", "main")
	type mirrored struct {
		name string
		mirror.Backend
		head string
	}
	var mirrors []mirrored
	for name, open := range backends {
		git := open(b, b.TempDir())
		mirrors = append(mirrors, mirrored{name, git, clone(b, git, repo, mirror.Content{}).Head})
	}
	for _, question := range []struct {
		name string
		ask  func(ctx context.Context, r content.Reader, head string) error
	}{
		{"commit", func(ctx context.Context, r content.Reader, head string) error {
			_, err := r.Commit(ctx, head)
			return err
		}},
		{"expand", func(ctx context.Context, r content.Reader, head string) error {
			_, err := r.Expand(ctx, head[:7])
			return err
		}},
		{"file", func(ctx context.Context, r content.Reader, head string) error {
			f, err := r.File(ctx, head, "apps/team-07/service-00007/config.yaml")
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, f)
			return err
		}},
		{"log", func(ctx context.Context, r content.Reader, head string) error {
			_, err := r.Log(ctx, content.LogParams{From: head, Limit: 100})
			return err
		}},
		{"log-deep", func(ctx context.Context, r content.Reader, head string) error {
			_, err := r.Log(ctx, content.LogParams{From: head, Skip: 10_000, Limit: 100})
			return err
		}},
		{"log-path", func(ctx context.Context, r content.Reader, head string) error {
			_, err := r.Log(ctx, content.LogParams{From: head, Path: "apps/team-07/service-00007", Limit: 100})
			return err
		}},
		{"compare", func(ctx context.Context, r content.Reader, head string) error {
			_, err := r.Compare(ctx, content.CompareParams{Base: first, Head: head, Limit: 1000})
			return err
		}},
		{"tree", func(ctx context.Context, r content.Reader, head string) error {
			root, err := r.Tree(ctx, head, "")
			if err != nil {
				return err
			}
			return listAll(ctx, r, root)
		}},
	} {
		for _, m := range mirrors {
			b.Run("ask="+question.name+"/"+m.name, func(b *testing.B) {
				b.ReportAllocs()
				before := ownTime(b)
				for b.Loop() {
					r, err := m.Open(b.Context(), "uid")
					if err == nil {
						err = question.ask(b.Context(), r, m.head)
					}
					if err != nil {
						b.Fatal(err)
					}
					_ = r.Close()
				}
				reportTime(b, ownTime(b)-before)
			})
		}
	}
}

// listAll lists a tree and all below it.
func listAll(ctx context.Context, r content.Reader, tree string) error {
	entries, err := r.List(ctx, tree)
	for _, e := range entries {
		if err == nil && e.Kind == content.KindFolder {
			err = listAll(ctx, r, e.ID)
		}
	}
	return err
}
