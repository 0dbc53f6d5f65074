// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// readiness is /readyz. It tells the names of the failed checks to everybody, and their causes to
// the log alone, once for each change.
type readiness struct {
	health *Health
	logger *slog.Logger

	mu   sync.Mutex
	last map[string]error // the results of the request before
}

func (p *readiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isDraining(r.Context()) {
		answer(w, http.StatusServiceUnavailable, errDraining.Error()+"\n")
		return
	}
	results := p.health.run(r.Context())
	p.logChanges(r.Context(), results)
	status, text := http.StatusOK, new(strings.Builder)
	for _, name := range slices.Sorted(maps.Keys(results)) {
		verdict := "ok"
		if results[name] != nil {
			status, verdict = http.StatusServiceUnavailable, "failed"
		}
		text.WriteString(name + ": " + verdict + "\n")
	}
	if text.Len() == 0 {
		text.WriteString("ok\n")
	}
	answer(w, status, text.String())
}

func (p *readiness) logChanges(ctx context.Context, results map[string]error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, err := range results {
		check := slog.String("check", name)
		switch {
		case err != nil && p.last[name] == nil:
			p.logger.WarnContext(ctx, "readiness check fails", check, slog.Any("error", err))
		case err == nil && p.last[name] != nil:
			p.logger.InfoContext(ctx, "readiness check passes again", check)
		}
	}
	p.last = results
}
