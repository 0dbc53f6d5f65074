// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

const (
	maxRead = 1 << 20
	// maxLookups bounds the refs that one call has looked up one after the other. A range of versions may
	// meet many that are not signed before one that is; the next call goes on from there.
	maxLookups = 16
)

// ResolveSnapshot implements the call.
func (s *Service) ResolveSnapshot(ctx context.Context, req *gitcachev1.ResolveSnapshotRequest) (*gitcachev1.ResolveSnapshotResponse, error) {
	src, err := parseSource(req.GetSource())
	if err != nil {
		return nil, err
	}
	return answer(ctx, s, "source.repository", req.GetSource().GetRepository(), client.ResolveSnapshot, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.ResolveSnapshotResponse, error) {
			return s.resolve(ctx, r, src)
		})
}

func (s *Service) resolve(ctx context.Context, r *mirroring.Repository, src source) (*gitcachev1.ResolveSnapshotResponse, error) {
	def := r.Definition()
	ctx, span := s.Tracer.Start(ctx, "snapshot.resolve", trace.WithAttributes(
		attribute.String("leat.repository", def.Name), attribute.String("leat.repository.uid", def.UID)))
	defer span.End()
	selector, err := src.at(def)
	if err != nil {
		return nil, err
	}
	c, selected, err := s.selectRef(ctx, r, selector)
	if err != nil {
		span.SetStatus(codes.Error, "no commit")
		return nil, err
	}
	commit, epoch := selected.Commit, r.Epoch()
	if epoch == 0 {
		epoch = c.Epoch
	}
	span.SetAttributes(attribute.Int64("leat.epoch", int64(epoch)), attribute.String("leat.commit", commit))
	found, err := s.Snapshots.Resolve(ctx, snapshot.Folder{
		UID: def.UID, Commit: contentID(def, commit, src.layer), Selection: src.selection, Repository: def.Name, Epoch: epoch,
		CompletesCharts: !def.Type.IsArtifacts(), ChartRepositories: def.ChartRepositories,
	})
	if errors.Is(err, content.ErrCommitNotFound) && src.selector.Kind != mirror.SelectCommit {
		// A ref's commit was fetched with the ref; its absence says nothing about the upstream.
		err = fmt.Errorf("%w: %s leads to %s, which is missing", content.ErrDamaged, src.selector, commit)
	}
	if err != nil {
		span.SetStatus(codes.Error, "no digest")
		return nil, s.failed(ctx, r, err)
	}
	span.SetAttributes(attribute.String("leat.digest", found.Digest.String()))
	return &gitcachev1.ResolveSnapshotResponse{
		Snapshot: &typev1.Snapshot{
			Commit: commit, Digest: found.Digest.String(), ContentSize: found.ContentSize, StoredSize: found.StoredSize,
			FileCount: int32(found.FileCount), Version: selected.Version,
		},
		FreshAt: fromTime(c.FreshAt), Epoch: epoch,
	}, nil
}

// resolveCommit returns the commit that a selector means in the mirror of this replica.
func (s *Service) resolveCommit(ctx context.Context, r *mirroring.Repository, selector mirror.Selector) (string, error) {
	_, selected, err := s.selectRef(ctx, r, selector)
	return selected.Commit, err
}

// selectRef finds what a selector means in the mirror of this replica. Refs that the upstream has to
// be asked about are looked up first. A commit that is named by leading digits is returned whole.
func (s *Service) selectRef(ctx context.Context, r *mirroring.Repository, selector mirror.Selector) (mirror.Content, mirror.Selected, error) {
	for lookups := 0; ; lookups++ {
		c, err := contentOf(r)
		if err != nil {
			return c, mirror.Selected{}, err
		}
		selected, err := c.Select(selector)
		if err == nil {
			if selector.Kind == mirror.SelectCommit {
				selected.Commit, err = s.nameCommit(ctx, r, selected.Commit)
			}
			return c, selected, err
		}
		unpinned, ok := errors.AsType[*mirror.UnpinnedError](err)
		if !ok || lookups == maxLookups {
			return c, mirror.Selected{}, toError(err, r.Definition().Name)
		}
		if err := r.Pin(ctx, unpinned.Names); err != nil {
			return c, mirror.Selected{}, toError(err, r.Definition().Name)
		}
	}
}

// ListRefs implements the call.
func (s *Service) ListRefs(ctx context.Context, req *gitcachev1.ListRefsRequest) (*gitcachev1.ListRefsResponse, error) {
	var after string
	if err := parseToken(req.GetPage(), &after); err != nil {
		return nil, err
	}
	return answer(ctx, s, "repository", req.GetRepository(), client.ListRefs, req,
		func(_ context.Context, r *mirroring.Repository) (*gitcachev1.ListRefsResponse, error) {
			c, err := contentOf(r)
			if err != nil {
				return nil, err
			}
			what := "commit"
			if r.Definition().Type.IsArtifacts() {
				what = "digest"
			}
			return listRefs(c.Refs, what, req.GetPrefix(), after, pageSize(req.GetPage())), nil
		})
}

// listRefs returns a page of refs. what is the word for what they lead to.
func listRefs(refs mirror.Refs, what, prefix, after string, size int) *gitcachev1.ListRefsResponse {
	page := refs.Below(prefix, after, size+1)
	resp := &gitcachev1.ListRefsResponse{}
	if len(page) > size {
		page = page[:size]
		resp.NextPageToken = formatToken(page[size-1].Name)
	}
	for _, ref := range page {
		if ref.Commit != "" || ref.Object == "" { // a tag of a file is not a named commit
			resp.Refs = append(resp.Refs, fromRef(ref, what))
		}
	}
	return resp
}

// historyPosition is where a page of ListCommits ends. The commit is kept because the ref may move
// between pages.
type historyPosition struct {
	From string `json:"from"`
	Skip int    `json:"skip"`
}

// ListCommits implements the call.
func (s *Service) ListCommits(ctx context.Context, req *gitcachev1.ListCommitsRequest) (*gitcachev1.ListCommitsResponse, error) {
	src, err := parseSource(req.GetSource())
	if err != nil {
		return nil, err
	}
	var at historyPosition
	if err := parseToken(req.GetPage(), &at); err != nil {
		return nil, err
	}
	if at.Skip < 0 || at.Skip > math.MaxInt32 || (at.From != "" && !pack.IsName(at.From)) {
		return nil, rpcerr.Field("page.token", "It is not a token that this listing returned.")
	}
	return answer(ctx, s, "source.repository", req.GetSource().GetRepository(), client.ListCommits, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.ListCommitsResponse, error) {
			from := at.From
			if from == "" {
				selector, err := src.at(r.Definition())
				if err != nil {
					return nil, err
				}
				if from, err = s.resolveCommit(ctx, r, selector); err != nil {
					return nil, err
				}
			}
			return s.listCommits(ctx, r, content.LogParams{From: from, Path: src.selection.Path(), Skip: at.Skip, Limit: pageSize(req.GetPage())})
		})
}

func (s *Service) listCommits(ctx context.Context, r *mirroring.Repository, p content.LogParams) (*gitcachev1.ListCommitsResponse, error) {
	resp := &gitcachev1.ListCommitsResponse{}
	err := s.read(ctx, r, func(reader content.Reader) error {
		log, err := reader.Log(ctx, p)
		for _, c := range log.Commits {
			resp.Commits = append(resp.Commits, fromCommit(c))
		}
		if log.Next > 0 {
			resp.NextPageToken = formatToken(historyPosition{From: p.From, Skip: log.Next})
		}
		return err
	})
	return resp, err
}

// read opens the mirror of this replica, and maps errors. use is called again where content had to
// be fetched first.
func (s *Service) read(ctx context.Context, r *mirroring.Repository, use func(content.Reader) error) error {
	err := s.filling(ctx, r, func() error {
		reader, err := s.Mirrors.Open(ctx, r.Definition().UID)
		if err != nil {
			return err
		}
		defer func() { _ = reader.Close() }()
		return use(reader)
	})
	if err != nil {
		return s.failed(ctx, r, err)
	}
	return nil
}

// failed maps an error of reading a mirror. A mirror that turned out to be damaged is given up:
// what its refs promise has to be fetched again.
func (s *Service) failed(ctx context.Context, r *mirroring.Repository, err error) error {
	if errors.Is(err, content.ErrDamaged) {
		s.Logger.ErrorContext(ctx, "mirror is damaged, it will be cloned again",
			slog.String("leat.repository", r.Definition().Name), slog.Any("error", err))
		r.DiscardContent()
	}
	return toError(err, r.Definition().Name)
}

// ReadFile implements the call.
func (s *Service) ReadFile(ctx context.Context, req *gitcachev1.ReadFileRequest) (*gitcachev1.ReadFileResponse, error) {
	src, err := parseSource(req.GetSource())
	switch {
	case err != nil:
		return nil, err
	case src.selection.Path() == "":
		return nil, rpcerr.Field("source.path", "It must name a file.")
	case req.GetOffset() < 0:
		return nil, rpcerr.Field("offset", "It must not be negative.")
	case req.GetLimit() < 0:
		return nil, rpcerr.Field("limit", "It must not be negative.")
	}
	return answer(ctx, s, "source.repository", req.GetSource().GetRepository(), client.ReadFile, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.ReadFileResponse, error) {
			selector, err := src.at(r.Definition())
			if err != nil {
				return nil, err
			}
			commit, err := s.resolveCommit(ctx, r, selector)
			if err != nil {
				return nil, err
			}
			resp := &gitcachev1.ReadFileResponse{Commit: commit}
			id := contentID(r.Definition(), commit, src.layer)
			return resp, s.read(ctx, r, func(reader content.Reader) (err error) {
				resp.Content, resp.Size, err = readRange(ctx, reader, id, src.selection.Path(), req.GetOffset(), req.GetLimit())
				return err
			})
		})
}

func readRange(ctx context.Context, reader content.Reader, commit, path string, offset, limit int64) ([]byte, int64, error) {
	if limit == 0 || limit > maxRead {
		limit = maxRead
	}
	f, err := reader.File(ctx, commit, path)
	if err != nil {
		return nil, 0, err
	}
	if _, err := io.CopyN(io.Discard, f, min(offset, f.Size)); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("skip to offset: %w", err), f.Close())
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, f.Size, errors.Join(err, f.Close())
}

// comparePosition is where a page of CompareCommits ends.
type comparePosition struct {
	Base  string `json:"base"`
	Head  string `json:"head"`
	After string `json:"after"`
}

// CompareCommits implements the call.
func (s *Service) CompareCommits(ctx context.Context, req *gitcachev1.CompareCommitsRequest) (*gitcachev1.CompareCommitsResponse, error) {
	base, err := parseSelector("base", req.GetBase())
	if err != nil {
		return nil, err
	}
	head, err := parseSelector("head", req.GetHead())
	if err != nil {
		return nil, err
	}
	path, err := content.CleanFolder(req.GetPath())
	if err != nil {
		return nil, rpcerr.Field("path", "It must be relative to the repository's root, without '..'.")
	}
	var at comparePosition
	if err := parseToken(req.GetPage(), &at); err != nil {
		return nil, err
	}
	if at != (comparePosition{}) && (!pack.IsName(at.Base) || !pack.IsName(at.Head)) {
		return nil, rpcerr.Field("page.token", "It is not a token that this listing returned.")
	}
	return answer(ctx, s, "repository", req.GetRepository(), client.CompareCommits, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.CompareCommitsResponse, error) {
			if at.Base == "" {
				if r.Definition().Type == upstream.TypeHelm {
					return nil, rpcerr.Field("repository", "It is a Helm repository, whose charts cannot be compared.")
				}
				var err error
				if at.Base, err = s.resolveCommit(ctx, r, within(r.Definition(), "", base)); err != nil {
					return nil, err
				}
				if at.Head, err = s.resolveCommit(ctx, r, within(r.Definition(), "", head)); err != nil {
					return nil, err
				}
			}
			return s.compare(ctx, r, at, path, pageSize(req.GetPage()))
		})
}

func (s *Service) compare(ctx context.Context, r *mirroring.Repository, at comparePosition, path string, size int) (*gitcachev1.CompareCommitsResponse, error) {
	resp := &gitcachev1.CompareCommitsResponse{}
	return resp, s.read(ctx, r, func(reader content.Reader) error {
		changes, err := reader.Compare(ctx, content.CompareParams{
			Base: at.Base, Head: at.Head, Path: path, After: at.After, Limit: size + 1,
		})
		if len(changes) > size {
			changes = changes[:size]
			at.After = changes[size-1].Path
			resp.NextPageToken = formatToken(at)
		}
		for _, c := range changes {
			resp.Changes = append(resp.Changes, &gitcachev1.PathChange{Path: text(c.Path), Kind: changeKinds[c.Kind]})
		}
		return err
	})
}
