// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// TestSecValuesOfTheClusterStaySealed keeps values of the cluster on disk, for the next process
// only.
func TestSecValuesOfTheClusterStaySealed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	logger := slog.New(slog.DiscardHandler)
	me, err := control.OpenIdentity(control.IdentityParams{Dir: dir, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	open := func() *control.Given {
		store, err := control.OpenGiven(control.GivenParams{Dir: dir, Identity: me, Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	service := plan.Service{Name: "shop", UID: "uid-1"}
	given := manifest.Given{
		References: map[string]manifest.GivenValue{"PASSWORD": {Reference: "cluster://shop/db#password", Text: "canary-reference"}},
		Opened:     []string{"canary-opened"},
	}
	open().SaveGiven(t.Context(), service, given)
	if diff := cmp.Diff(given, open().LoadGiven(t.Context(), service)); diff != "" {
		t.Errorf("the next process (-want +got):\n%s", diff)
	}
	if got := open().LoadGiven(t.Context(), plan.Service{Name: "shop", UID: "uid-2"}); len(got.References)+len(got.Opened) != 0 {
		t.Error("a later service of the same name has the values")
	}
	for path, content := range stored(t, dir) {
		if bytes.Contains(content, []byte("canary")) || bytes.Contains(content, []byte("PASSWORD")) {
			t.Errorf("a value stands in %s", path)
		}
	}
	open().Retain(t.Context(), plan.Plan{})
	if got := open().LoadGiven(t.Context(), service); len(got.Opened) != 0 {
		t.Error("the values outlive the service")
	}
}
