// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync/atomic"

	"github.com/leatdev/leat/services/agent/internal/render"
)

// maxWaiting bounds the total bytes of files that services without a slot hold in memory.
const maxWaiting = 64 << 20

// steppingOut builds kustomizations while its run does not hold a slot. Builds queue for the workers, and each may
// take the whole build timeout. If they held slots meanwhile, services without anything to build would wait for them.
// If too many bytes are in memory already, the run keeps its slot. Only the goroutine of its run may use it.
type steppingOut struct {
	builder render.Builder
	turn    *turn
	waiting *atomic.Int64 // bytes of the files of all runs that are building
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
		<-ctx.Done() // the run's context
		err = context.Cause(ctx)
	}
	return text, err
}
