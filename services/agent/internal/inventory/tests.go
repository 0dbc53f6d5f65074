// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"time"
)

// Tests is what is remembered about a service's tests, so that they run once for a change however often the agent is
// restarted. It is a value; nobody changes its slices.
type Tests struct {
	// Run names the latest run of the tests. Empty: none was needed yet.
	Run string `json:"run,omitempty"`
	// Due tells that it has not ended.
	Due bool `json:"due,omitempty"`
	// Objects are what tests may have left in the cluster. They are not among the service's objects.
	Objects []Object `json:"objects,omitempty"`
	// Results are those of the run, in its order; the last is the one that failed, if one did.
	Results []TestResult `json:"results,omitempty"`
}

// TestResult is what became of one test.
type TestResult struct {
	Ref    Ref  `json:"ref"`
	Passed bool `json:"passed,omitempty"`
	// Message says why it failed.
	Message string `json:"message,omitempty"`
	// LogTail is the end of what it wrote, where it failed. Secrets are masked.
	LogTail   string    `json:"logTail,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// Equal compares by value.
func (r TestResult) Equal(other TestResult) bool {
	return r.Ref == other.Ref && r.Passed == other.Passed && r.Message == other.Message && r.LogTail == other.LogTail &&
		r.StartedAt.Equal(other.StartedAt) && r.EndedAt.Equal(other.EndedAt)
}

// Failed returns the test that failed, if one did.
func (t Tests) Failed() (TestResult, bool) {
	i := slices.IndexFunc(t.Results, func(r TestResult) bool { return !r.Passed })
	if i < 0 {
		return TestResult{}, false
	}
	return t.Results[i], true
}

// With is t with objects that tests may make, beside those that it knows.
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
