// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package pushing pushes commits to upstreams for other parts of the hub, and has their servers
// open pull requests.
//
// Its promises:
//
//   - Only the owner of a repository pushes, and nothing is sent before its lease is checked.
//   - The repository's push option names every branch that is pushed to, and its own credential is
//     used: one that an operator shares by URL was given for reading.
//   - A commit changes existing regular files alone (package commitpack), and is made on the commit
//     that the caller has read. If the branch leads elsewhere by now, nothing is pushed:
//     PUSH_OUTDATED.
//   - The branch of a pull request is the caller's own. It is replaced, but only from the commit
//     that the upstream lists right before, and it stays as it is where it brings the same changes
//     already.
//
// Every failure about the push is a *mirror.UpstreamError or a *commitpack.FileError. The package
// keeps nothing: a call that is repeated finds out how far the call before came.
package pushing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/commitpack"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/forge"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/receivepack"
)

// defaultTimeout bounds one push, with its pull request.
const defaultTimeout = 2 * time.Minute

// maxHistory is how many commits before the base the branch of a pull request may begin at and
// still stay as it is.
const maxHistory = 1000

// Repository is a mirrored repository. Its methods may be called concurrently.
type Repository interface {
	// Content returns what the mirror of this replica holds.
	Content() (mirror.Content, error)
	// AsOwner runs what only the owner may do, see mirroring.Repository.
	AsOwner(ctx context.Context, run func(ctx context.Context, task mirror.OwnerTask) error) error
}

// Params are the parts of a [Pusher].
type Params struct {
	Upstreams receivepack.Upstreams
	Forges    *forge.Client
	Mirrors   content.Opener
	Meter     metric.Meter
	// Timeout bounds one push, with its pull request. Zero: two minutes.
	Timeout time.Duration
}

// Pusher pushes commits. It may be used concurrently.
type Pusher struct {
	params  Params
	metrics *metrics
}

// New returns a Pusher. It sends nothing.
func New(p Params) (*Pusher, error) {
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	m, err := newMetrics(p.Meter)
	if err != nil {
		return nil, err
	}
	return &Pusher{params: p, metrics: m}, nil
}

// Request asks for a commit. Its texts and bounds are checked by the caller.
type Request struct {
	// Branch is the branch that the commit is made on, without refs/heads/.
	Branch string
	// Base is the commit that it leads to.
	Base string
	// Files are new contents by path.
	Files   map[string][]byte
	Message string
	// Pull is the pull request for the commit. Nil: the commit goes onto the branch itself.
	Pull *PullRequest
}

// PullRequest asks to merge a branch.
type PullRequest struct {
	// Branch is the one that the commit is pushed to, without refs/heads/.
	Branch      string
	Title, Body string
}

// head returns the branch that is pushed to.
func (r Request) head() string {
	if r.Pull != nil {
		return r.Pull.Branch
	}
	return r.Branch
}

// Result is what has become of a request.
type Result struct {
	// Commit is the one that was pushed, or the base if the files have the contents already.
	Commit string
	// URL is the pull request's.
	URL string
	// Pushed: the upstream has something new.
	Pushed bool
}

// Push pushes a commit, and opens its pull request. The error matches mirror.ErrNotOwner where this
// replica does not own the repository.
func (p *Pusher) Push(ctx context.Context, r Repository, req Request) (Result, error) {
	var result Result
	err := r.AsOwner(ctx, func(ctx context.Context, task mirror.OwnerTask) (err error) {
		limited, cancel := context.WithTimeout(ctx, p.params.Timeout)
		defer cancel()
		result, err = p.push(limited, r, task, req)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			err = &mirror.UpstreamError{
				Reason:  reason.UpstreamUnreachable,
				Message: fmt.Sprintf("The upstream did not take the push within %s; push again.", p.params.Timeout), Cause: err,
			}
		}
		return err
	})
	p.metrics.pushed(ctx, result, err)
	return result, err
}

func (p *Pusher) push(ctx context.Context, r Repository, task mirror.OwnerTask, req Request) (Result, error) {
	def := task.Definition
	if err := allow(def, req); err != nil {
		return Result{}, err
	}
	if err := p.atBase(r, req); err != nil {
		return Result{}, err
	}
	made, err := p.commit(ctx, def, req)
	if err != nil || len(made.Changed) == 0 {
		return Result{Commit: made.ID}, err
	}
	branch, head := mirror.BranchPrefix+req.Branch, mirror.BranchPrefix+req.head()
	result := Result{Commit: made.ID, Pushed: true}
	params := mirror.FetchParams{Definition: def, Guard: task.Guard}
	err = receivepack.Push(ctx, p.params.Upstreams, params, head, []string{branch}, func(refs map[string]string) (*receivepack.Update, error) {
		if refs[branch] != req.Base {
			return nil, receivepack.Outdated(branch, nil)
		}
		if req.Pull != nil && refs[head] != "" {
			isBrought, err := p.brings(ctx, def, refs[head], req.Base, made)
			if err != nil {
				return nil, err
			}
			if isBrought {
				result = Result{Commit: refs[head]}
				return nil, nil
			}
		}
		return &receivepack.Update{New: made.ID, Pack: made.Pack}, nil
	})
	if err != nil {
		return Result{}, err
	}
	if req.Pull == nil {
		return result, nil
	}
	result.URL, err = p.params.Forges.Open(ctx, task, forge.PullRequest{
		Head: req.Pull.Branch, Base: req.Branch, Title: req.Pull.Title, Body: req.Pull.Body,
	})
	return result, err
}

// atBase refuses a request whose branch leads elsewhere by what the mirror knows. The upstream is
// asked only about the others.
func (p *Pusher) atBase(r Repository, req Request) error {
	c, err := r.Content()
	if err != nil {
		return err
	}
	name := mirror.BranchPrefix + req.Branch
	ref, ok := c.Refs.Get(name)
	switch {
	case !ok:
		return &mirror.RefError{Selector: mirror.Selector{Kind: mirror.SelectBranch, Value: req.Branch}}
	case ref.Delivered() != req.Base:
		return receivepack.Outdated(name, nil)
	}
	return nil
}

// commit makes the commit out of the mirror.
func (p *Pusher) commit(ctx context.Context, def mirror.Definition, req Request) (made commitpack.Commit, err error) {
	name, email := def.Push.Author()
	err = p.read(ctx, def, func(r content.Reader) (err error) {
		made, err = commitpack.Make(ctx, r, commitpack.Params{
			Base: req.Base, Files: req.Files, Name: name, Email: email, Time: time.Now(), Message: req.Message,
		})
		return err
	})
	return made, err
}

// brings reports whether the branch of a pull request brings the changes already: in one commit, on
// the base or on a commit before it that has the same files there. Otherwise each commit on the
// base would replace the branch, and have everything checked again.
func (p *Pusher) brings(ctx context.Context, def mirror.Definition, head, base string, made commitpack.Commit) (is bool, err error) {
	err = p.read(ctx, def, func(r content.Reader) (err error) {
		is, err = commitpack.Brings(ctx, r, head, base, made.Changed, maxHistory)
		return err
	})
	if errors.Is(err, content.ErrCommitNotFound) { // somebody pushed to it since the last fetch
		return false, nil
	}
	return is, err
}

func (p *Pusher) read(ctx context.Context, def mirror.Definition, use func(content.Reader) error) error {
	r, err := p.params.Mirrors.Open(ctx, def.UID)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return use(r)
}

// allow returns an error if the repository does not let the hub push this.
func allow(def mirror.Definition, req Request) error {
	message := ""
	switch {
	case def.Type.IsArtifacts():
		message = "Only Git repositories have branches to push to."
	case def.ParentUID != "":
		message = "It is the repository of a submodule, which the hub only reads; define it as a repository of its own."
	case !def.Push.Allows(req.head()):
		message = fmt.Sprintf("The repository's push.branches does not name the branch %q; add it there.", req.head())
	case req.Pull == nil && def.Verification.Mode.WantsCommit():
		message = "The repository delivers signed commits alone, and the hub does not sign; use a pull request, which a person merges with a signature."
	case req.Pull != nil && req.Pull.Branch == req.Branch:
		message = "The branch of a pull request cannot be the one to merge into."
	case def.Credential.Method == upstream.MethodNone && def.Credential.ClientCertPEM == "":
		message = "The repository has no credential of its own to push with; those of gitcache-credentials-file are for reading."
	}
	if message == "" && req.Pull != nil {
		_, err := forge.At(def)
		return err
	}
	if message == "" {
		return nil
	}
	return &mirror.UpstreamError{Reason: reason.PushNotAllowed, Message: message}
}
