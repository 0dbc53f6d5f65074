// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/verify"
)

// Mirrored returns what this replica's mirror holds, whether or not the repository's policy has been asked about it. It is
// for copying, never for delivery. The error matches ErrNotReady where the mirror holds nothing.
func (r *Repository) Mirrored() (mirror.Content, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.content.Exists() {
		return mirror.Content{}, &mirror.NotReadyError{Repository: r.name, Problem: r.problem}
	}
	return r.content, nil
}

// Verifies tells whether what is delivered has to be signed.
func (r *Repository) Verifies() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.judge.IsRequired()
}

// CheckCommit tells whether a commit that was named by its id, and not by a ref, is delivered. The error is a *RejectedError
// where it is not, or the reader's.
func (r *Repository) CheckCommit(ctx context.Context, reader content.Reader, id string) error {
	c, err := r.Content()
	if err != nil {
		return err
	}
	r.mu.Lock()
	j := r.judge
	r.mu.Unlock()
	return j.CheckCommit(ctx, reader, c, id)
}

// setContentLocked replaces what the mirror holds.
func (r *Repository) setContentLocked(c mirror.Content) {
	r.content = c
	r.contents++
	r.rejected, r.held = verify.Problem(c, r.rejected, time.Now())
}

// keepJudged has the policy asked about what the mirror holds whenever it has not been, until ctx is done: it was changed, or
// the content comes from a replica, or a time, with another one.
func (r *Repository) keepJudged(ctx context.Context) {
	failures := 0
	for r.awaitUnjudged(ctx) == nil {
		err := r.rejudge(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		if errors.Is(err, content.ErrDamaged) {
			r.DiscardContent()
		}
		if failures == 0 {
			r.shared.Logger.WarnContext(ctx, "mirror not judged, trying again", slog.String("leat.repository", r.name), slog.Any("error", err))
		}
		_ = backoff.Wait(ctx, backoff.Policy{Initial: time.Second, Max: followRetry}.Delay(failures)) // the loop's condition looks at ctx
		failures++
	}
}

func (r *Repository) judgedLocked() bool {
	return !r.content.Exists() || r.judge.HasVerified(r.content)
}

func (r *Repository) awaitUnjudged(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.judgedLocked() {
		if err := r.awaitChangeLocked(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rejudge judges what the mirror holds. It counts at once, however long a fetch keeps the disk busy, and is then kept: what
// was let through last has to be known after a restart too.
func (r *Repository) rejudge(ctx context.Context) error {
	r.mu.Lock()
	before, j, version := r.content, r.judge, r.contents
	r.mu.Unlock()
	reader, err := r.shared.Backend.Open(ctx, r.uid)
	if err != nil {
		return fmt.Errorf("open mirror: %w", err)
	}
	judged, err := j.Admit(ctx, reader, before, before)
	if err = errors.Join(err, reader.Close()); err != nil {
		return err
	}
	if !r.takeJudged(before, judged, version) {
		return nil
	}
	return r.keepVerdict(ctx)
}

// takeJudged takes a verdict over, unless what it is about has been replaced meanwhile.
func (r *Repository) takeJudged(before, judged mirror.Content, version uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.contents != version {
		return false
	}
	r.setContentLocked(judged)
	r.verdict = slices.Concat(r.verdict, before.Changed(judged))
	r.signalLocked()
	return true
}

func (r *Repository) keepVerdict(ctx context.Context) error {
	if err := r.disk.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer r.disk.Release(1)
	r.mu.Lock()
	c, judged := r.content, r.judgedLocked()
	r.mu.Unlock()
	if !judged || !c.Exists() { // replaced meanwhile
		return nil
	}
	if err := r.shared.Backend.SaveDelivery(ctx, r.uid, c); err != nil {
		return fmt.Errorf("keep verdict: %w", err)
	}
	return nil
}

// noteVerdict publishes what a new policy changed.
func (t *tenure) noteVerdict() {
	r := t.repo
	r.mu.Lock()
	changed := r.verdict
	r.verdict = nil
	r.mu.Unlock()
	if len(changed) == 0 {
		return
	}
	event := mirror.Event{Time: time.Now()}
	event.Merge(mirror.Event{Changed: changed, Time: event.Time})
	t.note(event)
}
