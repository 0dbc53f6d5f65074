// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// startupRetry is the longest wait between two tries to reach the database.
const startupRetry = 5 * time.Second

// errStarting is why a replica is not ready before it has read the catalog. Migrations may take
// minutes.
var errStarting = errors.New("the catalog was not read yet; the database may be migrated at the moment")

// startup is a replica until it has read the catalog: it lives, and is not ready. While the
// database does not answer, it waits. It must not end: whatever starts it again would wait longer
// each time, and would end a migration in the middle.
type startup struct {
	logger *slog.Logger

	mu    sync.Mutex
	cause error // why it is not ready; nil once it is
}

func newStartup(logger *slog.Logger) *startup { return &startup{logger: logger, cause: errStarting} }

// check is the readiness check.
func (s *startup) check(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// finish makes the replica ready.
func (s *startup) finish() { s.wait(nil) }

// wait sets why the replica is not ready.
func (s *startup) wait(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cause = cause
}

// untilAvailable tries again while the database does not answer.
func (s *startup) untilAvailable(ctx context.Context, do func(context.Context) error) error {
	return backoff.Retry(ctx, backoff.Policy{Max: startupRetry}, func(ctx context.Context) error {
		err := do(ctx)
		switch {
		case err == nil:
			s.wait(errStarting)
			return nil
		case errors.Is(err, catalog.ErrUnavailable), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			s.wait(fmt.Errorf("the database does not answer: %w", err))
			s.logger.WarnContext(ctx, "database does not answer yet; trying again", slog.Any("error", err))
			return err
		default:
			return backoff.Permanent(err)
		}
	})
}
