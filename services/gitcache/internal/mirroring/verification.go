// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// verification verifies the mirrored content whenever the policy that counts has not: it was
// changed, or the content comes from a replica, or a time, with another one. Fetches verify their
// own content.
type verification struct {
	shared *shared
	status *status
	local  *localMirror
}

// run verifies until ctx is done. Until a verification succeeds nothing is delivered. A mirror that
// turns out to be damaged is discarded.
func (v *verification) run(ctx context.Context) {
	failures := 0
	needsVerification := func() bool {
		now := v.status.holding.read()
		return now.content.Exists() && !now.isVerified
	}
	for v.status.changes.Await(ctx, needsVerification) == nil {
		err := v.verify(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		if errors.Is(err, content.ErrDamaged) {
			v.status.discard()
		}
		if failures == 0 {
			v.shared.logger(v.status).WarnContext(ctx, "mirror not verified, trying again", slog.Any("error", err))
		}
		_ = backoff.Wait(ctx, backoff.Policy{Initial: time.Second, Max: followRetry}.Delay(failures)) // the loop checks ctx
		failures++
	}
}

// verify verifies what the mirror holds. The result counts at once, however long a fetch keeps the
// files, and is saved after that.
func (v *verification) verify(ctx context.Context) error {
	verifier, before, version := v.status.holding.policy()
	reader, err := v.shared.Backend.Open(ctx, v.status.uid)
	if err != nil {
		return fmt.Errorf("open mirror: %w", err)
	}
	verified, err := verifier.Admit(ctx, reader, before, before)
	if err = errors.Join(err, reader.Close()); err != nil {
		return err
	}
	if !v.status.holding.applyVerified(verified, version) {
		return nil
	}
	return v.local.saveDelivery(ctx)
}
