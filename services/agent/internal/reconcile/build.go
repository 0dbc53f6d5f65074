// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync/atomic"

	"github.com/leatdev/leat/services/agent/internal/render"
)

// maxWaiting bounds the bytes of files that services without a slot have in memory together.
const maxWaiting = 64 << 20

// steppingOut builds kustomizations while its run has no slot. Builds queue for their workers: one service after the other, each for as
// long as a build may take. If they held slots meanwhile, services that have nothing to build would wait for them. Where too
// much is in memory already, the run keeps its slot. It is for the goroutine of its run.
type steppingOut struct {
	builder render.Builder
	turn    *turn
	waiting *atomic.Int64 // bytes of files of all runs that have stepped out
}

// Build implements render.Builder.
func (s *steppingOut) Build(ctx context.Context, files *render.Files, folder string) ([]byte, error) {
	bytes := files.Size()
	defer s.waiting.Add(-bytes)
	if s.waiting.Add(bytes) > maxWaiting {
		return s.builder.Build(ctx, files, folder)
	}
	s.turn.leave()
	text, err := s.builder.Build(ctx, files, folder)
	if !s.turn.take() && err == nil {
		<-ctx.Done() // which is of the run
		err = context.Cause(ctx)
	}
	return text, err
}
