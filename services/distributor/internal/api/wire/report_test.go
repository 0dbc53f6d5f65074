// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestTimingsComeBack sends timings as an agent does, and reads them as people do.
func TestTimingsComeBack(t *testing.T) {
	t.Parallel()
	want := catalog.Timings{
		ArrivedAt: time.Unix(1, 0).UTC(), Download: 1, Render: 2, Apply: 3, Healthy: 4, RenderWait: 5,
	}
	message := wire.ReportMessage(&catalog.Service{}, &catalog.ServiceReport{Timings: want})
	if got := wire.ReportOf(message).Timings; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestSecWarningsAreBounded sends more and longer warnings than an agent does.
func TestSecWarningsAreBounded(t *testing.T) {
	t.Parallel()
	got := wire.ReportOf(&distributorv1.ServiceReport{Warnings: slices.Repeat([]string{strings.Repeat("ü", 1<<20)}, 1000)}).Warnings
	if len(got) != 5 {
		t.Errorf("got %d warnings, want 5", len(got))
	}
	for _, warning := range got {
		if len(warning) != 200 || !utf8.ValidString(warning) {
			t.Errorf("got a warning of %d bytes, want 200", len(warning))
		}
	}
	message := wire.ReportMessage(&catalog.Service{}, &catalog.ServiceReport{Warnings: []string{"a", "b"}})
	if back := wire.ReportOf(message).Warnings; !slices.Equal(back, []string{"a", "b"}) {
		t.Errorf("got %q, want what was sent", back)
	}
}

// TestRunningTestComesBack sends the test that runs as an agent does, and one with too long a message.
func TestRunningTestComesBack(t *testing.T) {
	t.Parallel()
	want := catalog.TestResult{ObjectRef: catalog.ObjectRef{Version: "v1", Kind: "Pod", Name: "a"}, Message: "Pending", StartedAt: time.Unix(1, 0).UTC()}
	message := wire.ReportMessage(&catalog.Service{}, &catalog.ServiceReport{RunningTest: &want})
	if got := wire.ReportOf(message).RunningTest; got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := wire.ReportOf(wire.ReportMessage(&catalog.Service{}, &catalog.ServiceReport{})).RunningTest; got != nil {
		t.Errorf("got %+v, want none", got)
	}
	message.RunningTest.Message = strings.Repeat("ü", 1<<20)
	if got := wire.ReportOf(message).RunningTest; len(got.Message) > 200 {
		t.Errorf("got a message of %d bytes, want 200 at most", len(got.Message))
	}
}

// TestReportsHoldNoMoreOfSourcesThanAPlan reports longer texts of sources, and more of them, than a plan can have.
func TestReportsHoldNoMoreOfSourcesThanAPlan(t *testing.T) {
	t.Parallel()
	const longest = 256
	reported := func(texts []string) map[string][]string {
		report := wire.ReportOf(&distributorv1.ServiceReport{
			AppliedDigests: texts, AppliedCommits: texts, AppliedVersions: texts,
			ObservedDigests: texts, ObservedCommits: texts, ObservedVersions: texts,
		})
		return map[string][]string{
			"applied digests": report.AppliedDigests, "applied commits": report.AppliedCommits, "applied versions": report.AppliedVersions,
			"observed digests": report.ObservedDigests, "observed commits": report.ObservedCommits, "observed versions": report.ObservedVersions,
		}
	}
	most := slices.Repeat([]string{strings.Repeat("a", longest)}, catalog.MaxSources)
	for name, got := range reported(most) {
		if !slices.Equal(got, most) {
			t.Errorf("%s: got %d of %d", name, len(got), len(most))
		}
	}
	for name, got := range reported(append(most, "c1")) {
		if len(got) > 0 {
			t.Errorf("%s: got %d texts of more than %d sources", name, len(got), catalog.MaxSources)
		}
	}
	for name, got := range reported([]string{"c1", strings.Repeat("a", longest+1)}) {
		if want := []string{"c1", ""}; !slices.Equal(got, want) {
			t.Errorf("%s: got %.20q, want %q", name, got, want)
		}
	}
}
