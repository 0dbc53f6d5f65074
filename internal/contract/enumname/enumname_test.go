// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package enumname_test

import (
	"testing"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for value, want := range map[typev1.DriftMode]string{
		typev1.DriftMode_DRIFT_MODE_UNSPECIFIED: "",
		typev1.DriftMode_DRIFT_MODE_REPORT:      "REPORT",
		77:                                      "77",
	} {
		if got := enumname.Of(value); got != want {
			t.Errorf("%v: got %q, want %q", value, got, want)
		}
	}
	for name, want := range map[string]typev1.DriftMode{
		"":          typev1.DriftMode_DRIFT_MODE_UNSPECIFIED,
		"REPORT":    typev1.DriftMode_DRIFT_MODE_REPORT,
		"report":    typev1.DriftMode_DRIFT_MODE_REPORT,
		"REPORTING": typev1.DriftMode_DRIFT_MODE_UNSPECIFIED,
		"77":        typev1.DriftMode_DRIFT_MODE_UNSPECIFIED,
	} {
		if got := enumname.Value[typev1.DriftMode](name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}
