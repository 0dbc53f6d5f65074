// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"strings"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/testkit/await"
)

// problemOf returns the worst problem of a kind in the status of the fleet, or nil.
func (h *hub) problemOf(t *testing.T, kind string) *fleetv1.ProblemGroup {
	t.Helper()
	res, err := h.queries(t, adminToken).GetFleetStatus(t.Context(), &fleetv1.GetFleetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range res.GetProblems() {
		if group.GetKind() == kind {
			return group
		}
	}
	return nil
}

// wantProblem waits for a problem of a kind with that severity, whose message contains a text.
func (h *hub) wantProblem(t *testing.T, kind string, severity fleetv1.ProblemSeverity, message string) {
	t.Helper()
	await.True(t, "a problem of a "+kind+" with "+message, func() bool {
		got := h.problemOf(t, kind)
		return got.GetSeverity() == severity && strings.Contains(got.GetMessage(), message)
	})
}
