// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/api/bundlehttp"
)

type brokenVerifier struct{}

func (brokenVerifier) Verify(context.Context, string) (identity.Identity, error) {
	return identity.Identity{}, errors.New("database is gone")
}

// TestVerifierThatFailsIsLogged checks that an operator finds the cause of a 500, which the caller
// is not shown.
func TestVerifierThatFailsIsLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	handler := bundlehttp.NewHandler(bundlehttp.HandlerParams{
		Verifier: brokenVerifier{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/bundles/x", nil)
	request.Header.Set("Authorization", "Bearer x")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if answer.Code != http.StatusInternalServerError || strings.Contains(answer.Body.String(), "database") {
		t.Errorf("got %d %s, want 500 without the cause", answer.Code, answer.Body)
	}
	if !strings.Contains(log.String(), "database is gone") {
		t.Errorf("got log %q, want the cause", log.String())
	}
}
