// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"time"
)

// Tests is the recorded state of a service's tests. It makes them run once for a change, however
// often the agent restarts. It is a value; callers must not change its slices.
type Tests struct {
	// Run identifies the latest run of the tests. It is empty before the first.
	Run string `json:"run,omitempty"`
	// Due means that the run has not ended.
	Due bool `json:"due,omitempty"`
	// Objects are objects that tests may have left in the cluster. They are not among the service's
	// objects.
	Objects []Object `json:"objects,omitempty"`
	// Results are the results of the run, in order. If a test failed, its result is the last.
	Results []TestResult `json:"results,omitempty"`
}

// TestResult is the result of one test.
type TestResult struct {
	Ref    Ref  `json:"ref"`
	Passed bool `json:"passed,omitempty"`
	// Message is why it failed.
	Message string `json:"message,omitempty"`
	// LogTail is the end of its output if it failed. Secrets are masked.
	LogTail   string    `json:"logTail,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// Equal compares by value.
func (r TestResult) Equal(other TestResult) bool {
	return r.Ref == other.Ref && r.Passed == other.Passed && r.Message == other.Message && r.LogTail == other.LogTail &&
		r.StartedAt.Equal(other.StartedAt) && r.EndedAt.Equal(other.EndedAt)
}

// Failed returns the test that failed, and reports whether one did.
func (t Tests) Failed() (TestResult, bool) {
	i := slices.IndexFunc(t.Results, func(r TestResult) bool { return !r.Passed })
	if i < 0 {
		return TestResult{}, false
	}
	return t.Results[i], true
}

// With returns t with objects that tests may create added.
func (t Tests) With(refs ...Ref) Tests {
	known := NewSet(t.Objects...)
	for _, ref := range refs {
		if _, ok := known.Get(ref.Key); !ok {
			known.Put(Object{Ref: ref})
		}
	}
	t.Objects = known.Objects()
	return t
}
