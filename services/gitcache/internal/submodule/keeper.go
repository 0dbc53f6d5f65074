// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

const (
	// patience is how long a build waits for a submodule that is being fetched.
	patience = 15 * time.Second
	// maxSubmodules bounds the repositories of one root: a push could name any number.
	maxSubmodules = 100
	// failureMemory is how long an upstream is not asked again for a commit that it does not have.
	failureMemory = 30 * time.Second
	manyFailures  = 10_000 // that are remembered
	tidyEvery     = 30 * time.Second
)

// Params configures a [Keeper]. All fields are required except Shared.
type Params struct {
	Set      *mirroring.Set
	Registry mirror.Registry
	Mirrors  content.Opener
	Events   mirror.EventLog
	// Check reports whether a definition can be used; the error is a *mirror.FieldError.
	Check  func(mirror.Definition) error
	Logger *slog.Logger
	// Shared lists folders in which submodules get the credential of the repository that they
	// belong to, if that repository is at the same host. Empty: only submodules in that
	// repository's own folder get it.
	Shared []Prefix
}

// Keeper has submodules mirrored. It may be used concurrently.
type Keeper struct {
	params Params

	failed *lru.Cache[commitKey, failure]
}

// commitKey names a commit of a repository.
type commitKey struct{ uid, commit string }

type failure struct {
	said  string
	until time.Time
}

// New returns a Keeper.
func New(p Params) *Keeper {
	failed, _ := lru.New[commitKey, failure](manyFailures) // fails only for a limit that is not positive
	return &Keeper{params: p, failed: failed}
}

// Locate returns the UID of the submodule's repository, which need not be mirrored. Errors are
// *UnavailableError and what finding the repositories above it fails with.
func (k *Keeper) Locate(l Link) (uid string, err error) {
	def, err := k.define(l)
	return def.UID, err
}

func (k *Keeper) define(l Link) (mirror.Definition, error) {
	root, err := k.params.Set.Find(l.Root)
	if err != nil {
		return mirror.Definition{}, err
	}
	parent, err := k.params.Set.Find(l.Parent)
	if err != nil {
		return mirror.Definition{}, err
	}
	if l.URL == "" {
		return mirror.Definition{}, l.unavailable("The commit's .gitmodules has no URL for it.")
	}
	address, refused := resolve(parent.Definition().URL, l.URL)
	if refused != "" {
		return mirror.Definition{}, l.unavailable(refused)
	}
	return derive(root.Definition(), address, k.params.Shared), nil
}

// Obtain makes this replica's mirror of the submodule's repository hold the commit. It waits a
// bounded time. Errors are *NotReadyError, *UnavailableError, the registry's, the context's.
func (k *Keeper) Obtain(ctx context.Context, l Link) error {
	def, err := k.define(l)
	if err != nil {
		return err
	}
	if f, ok := k.failed.Get(commitKey{def.UID, l.Commit}); ok && time.Now().Before(f.until) {
		return l.unavailable(f.said)
	}
	r, err := k.mirrored(ctx, l, def)
	if err != nil {
		return err
	}
	w := &wait{keeper: k, link: l, repository: r}
	return w.run(ctx)
}

// mirrored returns the repository, which it makes known to all replicas where it is not.
func (k *Keeper) mirrored(ctx context.Context, l Link, def mirror.Definition) (*mirroring.Repository, error) {
	if r, err := k.params.Set.Find(def.UID); err == nil {
		return r, nil
	}
	if err := k.params.Check(def); err != nil {
		if field, ok := errors.AsType[*mirror.FieldError](err); ok {
			err = l.unavailable("Its URL cannot be used: " + field.Message)
		}
		return nil, err
	}
	if k.count(l.Root) >= maxSubmodules {
		return nil, l.unavailable(fmt.Sprintf("The repository has %d other submodules, and may have no more.", maxSubmodules))
	}
	if err := k.params.Registry.Put(ctx, def); err != nil {
		return nil, err
	}
	k.params.Logger.InfoContext(ctx, "submodule is mirrored from now on",
		slog.String("leat.repository", def.Parent), slog.String("submodule", def.Name), slog.String("path", l.Path))
	return k.params.Set.Find(def.UID)
}

func (k *Keeper) count(root string) int {
	n := 0
	for _, def := range k.params.Set.Definitions() {
		if def.ParentUID == root {
			n++
		}
	}
	return n
}

// Discard has the damaged mirror of a submodule fetched again.
func (k *Keeper) Discard(uid string) {
	if r, err := k.params.Set.Find(uid); err == nil {
		r.DiscardContent()
	}
}

// Run keeps the definitions of submodules in step with their roots, until ctx is done. It returns
// nil.
func (k *Keeper) Run(ctx context.Context) error {
	for backoff.Wait(ctx, backoff.Jitter(tidyEvery, 0.5)) == nil {
		if err := k.Tidy(ctx); err != nil && ctx.Err() == nil {
			k.params.Logger.InfoContext(ctx, "definitions of submodules not brought up to date", slog.Any("error", err))
		}
	}
	return nil
}

// Tidy deletes the definitions of submodules whose root is gone, and changes those whose root was
// changed. Several replicas may do so at once: they come to the same.
func (k *Keeper) Tidy(ctx context.Context) error {
	var errs []error
	for _, def := range k.params.Set.Orphans() {
		_, deleted, err := k.params.Registry.Delete(ctx, def.Name, 0)
		if deleted {
			err = k.params.Events.Append(ctx, mirror.Event{Repository: def.Name, UID: def.UID, Deleted: true, Time: time.Now()})
		}
		errs = append(errs, err)
	}
	for _, def := range k.params.Set.Definitions() {
		if def.Parent == "" {
			continue
		}
		root, err := k.params.Set.Find(def.ParentUID)
		if err != nil { // deleted meanwhile
			continue
		}
		if want := derive(root.Definition(), def.URL, k.params.Shared); want != def {
			errs = append(errs, k.params.Registry.Put(ctx, want))
		}
	}
	return errors.Join(errs...)
}
