// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

const (
	// maxRead is the most bytes of a file that one call returns.
	maxRead = 1 << 20
	// maxResolved is the most tags that one call has looked up.
	maxResolved = 10
)

// ListRefs implements the call.
func (s *Service) ListRefs(ctx context.Context, req *gitcachev1.ListRefsRequest) (*gitcachev1.ListRefsResponse, error) {
	var after string
	if err := wire.ParseToken(req.GetPage(), &after); err != nil {
		return nil, err
	}
	if err := fielderr.Each("resolve", "names", req.GetResolve(), maxResolved, checkTag); err != nil {
		return nil, wire.Error(err, req.GetRepository())
	}
	return answer(ctx, s, "repository", req.GetRepository(), client.ListRefs, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.ListRefsResponse, error) {
			if err := lookUp(ctx, r, req.GetResolve()); err != nil {
				return nil, err
			}
			c, err := contentOf(r)
			if err != nil {
				return nil, err
			}
			what := "commit"
			if r.Definition().Type.IsArtifacts() {
				what = "digest"
			}
			return listRefs(c.Refs, what, req.GetPrefix(), after, wire.PageSize(req.GetPage())), nil
		})
}

// checkTag accepts the full name of a tag, be it there or not.
func checkTag(field, name string) error {
	if !strings.HasPrefix(name, mirror.TagPrefix) {
		return fielderr.New(field, "must begin with %s", mirror.TagPrefix)
	}
	return nil
}

// lookUp makes the mirror know the digests of tags of an OCI repository. It asks the registry only
// about tags that are listed and whose digest is not known.
func lookUp(ctx context.Context, r *mirroring.Repository, names []string) error {
	def := r.Definition()
	if len(names) == 0 || def.Type != upstream.TypeOCI {
		return nil
	}
	c, err := contentOf(r)
	if err != nil {
		return err
	}
	unpinned := c.Unpinned(names)
	if len(unpinned) == 0 {
		return nil
	}
	if err := r.Pin(ctx, unpinned); err != nil {
		return wire.Error(err, def.Name)
	}
	return nil
}

// listRefs returns a page of refs. what is the word for their targets.
func listRefs(refs mirror.Refs, what, prefix, after string, size int) *gitcachev1.ListRefsResponse {
	page := refs.Below(prefix, after, size+1)
	resp := &gitcachev1.ListRefsResponse{}
	if len(page) > size {
		page = page[:size]
		resp.NextPageToken = wire.FormatToken(page[size-1].Name)
	}
	for _, ref := range page {
		if ref.Commit != "" || ref.Object == "" { // a tag of a file is not a named commit
			resp.Refs = append(resp.Refs, wire.RefMessage(ref, what))
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
func (s *Service) ListCommits(
	ctx context.Context, req *gitcachev1.ListCommitsRequest,
) (*gitcachev1.ListCommitsResponse, error) {
	src, err := wire.ParseSource(req.GetSource())
	if err != nil {
		return nil, err
	}
	var at historyPosition
	if err := wire.ParseToken(req.GetPage(), &at); err != nil {
		return nil, err
	}
	if until := req.GetUntil(); until != "" && !pack.IsName(until) {
		return nil, rpcerr.Field("until", "It is not a whole commit id.")
	}
	if at.Skip < 0 || at.Skip > math.MaxInt32 || (at.From != "" && !pack.IsName(at.From)) {
		return nil, rpcerr.Field("page.token", "It is not a token that this listing returned.")
	}
	return answer(ctx, s, "source.repository", req.GetSource().GetRepository(), client.ListCommits, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.ListCommitsResponse, error) {
			from := at.From
			if from == "" {
				selector, err := src.At(r.Definition())
				if err != nil {
					return nil, err
				}
				if from, err = s.resolveCommit(ctx, r, selector); err != nil {
					return nil, err
				}
			}
			return s.listCommits(
				ctx, r,
				content.LogParams{
					From: from, Until: req.GetUntil(), Path: src.Selection.Path(), Skip: at.Skip, Limit: wire.PageSize(req.GetPage()),
				},
			)
		})
}

func (s *Service) listCommits(
	ctx context.Context, r *mirroring.Repository, p content.LogParams,
) (*gitcachev1.ListCommitsResponse, error) {
	resp := &gitcachev1.ListCommitsResponse{}
	err := s.read(ctx, r, func(reader content.Reader) error {
		log, err := reader.Log(ctx, p)
		for _, c := range log.Commits {
			resp.Commits = append(resp.Commits, wire.CommitMessage(c))
		}
		if log.Next > 0 {
			resp.NextPageToken = wire.FormatToken(historyPosition{From: p.From, Skip: log.Next})
		}
		return err
	})
	return resp, err
}

// ReadFile implements the call.
func (s *Service) ReadFile(ctx context.Context, req *gitcachev1.ReadFileRequest) (*gitcachev1.ReadFileResponse, error) {
	src, err := wire.ParseSource(req.GetSource())
	switch {
	case err != nil:
		return nil, err
	case src.Selection.Path() == "":
		return nil, rpcerr.Field("source.path", "It must name a file.")
	case req.GetOffset() < 0:
		return nil, rpcerr.Field("offset", "It must not be negative.")
	case req.GetLimit() < 0:
		return nil, rpcerr.Field("limit", "It must not be negative.")
	}
	return answer(ctx, s, "source.repository", req.GetSource().GetRepository(), client.ReadFile, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.ReadFileResponse, error) {
			selector, err := src.At(r.Definition())
			if err != nil {
				return nil, err
			}
			commit, err := s.resolveCommit(ctx, r, selector)
			if err != nil {
				return nil, err
			}
			resp := &gitcachev1.ReadFileResponse{Commit: commit}
			id := wire.ContentID(r.Definition(), commit, src.Layer)
			return resp, s.read(ctx, r, func(reader content.Reader) (err error) {
				resp.Content, resp.Size, err = readRange(ctx, reader, id, src.Selection.Path(), req.GetOffset(), req.GetLimit())
				return err
			})
		})
}

func readRange(
	ctx context.Context, reader content.Reader, commit, path string, offset, limit int64,
) ([]byte, int64, error) {
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
func (s *Service) CompareCommits(
	ctx context.Context, req *gitcachev1.CompareCommitsRequest,
) (*gitcachev1.CompareCommitsResponse, error) {
	base, err := wire.ParseSelector("base", req.GetBase())
	if err != nil {
		return nil, err
	}
	head, err := wire.ParseSelector("head", req.GetHead())
	if err != nil {
		return nil, err
	}
	path, err := content.CleanFolder(req.GetPath())
	if err != nil {
		return nil, rpcerr.Field("path", "It must be relative to the repository's root, without '..'.")
	}
	var at comparePosition
	if err := wire.ParseToken(req.GetPage(), &at); err != nil {
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
				if at.Base, err = s.resolveCommit(ctx, r, wire.Within(r.Definition(), "", base)); err != nil {
					return nil, err
				}
				if at.Head, err = s.resolveCommit(ctx, r, wire.Within(r.Definition(), "", head)); err != nil {
					return nil, err
				}
			}
			return s.compare(ctx, r, at, path, wire.PageSize(req.GetPage()))
		})
}

func (s *Service) compare(
	ctx context.Context, r *mirroring.Repository, at comparePosition, path string, size int,
) (*gitcachev1.CompareCommitsResponse, error) {
	resp := &gitcachev1.CompareCommitsResponse{}
	return resp, s.read(ctx, r, func(reader content.Reader) error {
		changes, err := reader.Compare(ctx, content.CompareParams{
			Base: at.Base, Head: at.Head, Path: path, After: at.After, Limit: size + 1,
		})
		if len(changes) > size {
			changes = changes[:size]
			at.After = changes[size-1].Path
			resp.NextPageToken = wire.FormatToken(at)
		}
		for _, c := range changes {
			resp.Changes = append(resp.Changes, &gitcachev1.PathChange{Path: wire.Text(c.Path), Kind: wire.ChangeKinds[c.Kind]})
		}
		return err
	})
}
