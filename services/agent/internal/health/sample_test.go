// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/services/agent/internal/health"
)

// sample is an object as real clusters have it, and the verdict that it should get.
type sample struct {
	Case string `json:"case"`
	// Want is the state, Message the whole message.
	Want    string `json:"want"`
	Message string `json:"message,omitempty"`
	// Kstatus is the verdict of kstatus on a core kind, if it differs. "error": kstatus fails.
	Kstatus string `json:"kstatus,omitempty"`
	// Static objects of a library kind need no status.
	Static bool                      `json:"static,omitempty"`
	Object unstructured.Unstructured `json:"object"`
}

// samples reads all samples in a folder of testdata.
func samples(t testing.TB, folder string) []sample {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %v and %v, want files of samples", paths, err)
	}
	var all []sample
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var some []sample
		if err := yaml.UnmarshalStrict(content, &some); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, some...)
	}
	return all
}

func check(t *testing.T, library *health.Library, s sample) {
	t.Helper()
	got := library.Judge(&s.Object)
	if got.State.String() != s.Want || got.Message != s.Message {
		t.Errorf("%s: got %v %q, want %s %q", s.Case, got.State, got.Message, s.Want, s.Message)
	}
}

func TestCoreKinds(t *testing.T) {
	t.Parallel()
	library := health.NewLibrary()
	for _, s := range samples(t, "core") {
		check(t, library, s)
		want := s.Kstatus
		if want == "" {
			want = s.Want
		}
		if got := kstatusOf(&s.Object); got != want {
			t.Errorf("%s: got %s of kstatus, want %s", s.Case, got, want)
		}
	}
}

// kstatusOf translates the verdict of kstatus.
func kstatusOf(o *unstructured.Unstructured) string {
	result, err := status.Compute(o)
	if err != nil {
		return "error"
	}
	return map[status.Status]health.State{
		status.CurrentStatus: health.Healthy, status.InProgressStatus: health.Progressing,
		status.FailedStatus: health.Degraded, status.TerminatingStatus: health.Terminating,
	}[result.Status].String()
}
