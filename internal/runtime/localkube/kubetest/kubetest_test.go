// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest_test

import (
	"net/http"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
)

func TestStartAPIServerOnly(t *testing.T) {
	t.Parallel()
	cp := kubetest.Start(t, func(p *localkube.Params) { p.APIServerOnly = true })

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cp.Host()+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("readyz: got status %d, want %d", response.StatusCode, http.StatusOK)
	}
}
