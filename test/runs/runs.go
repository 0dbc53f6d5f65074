// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package runs reads what a run of go test did, from the events that gotestsum writes.
//
// A failed test may run again. One that then passes is flaky: the run is green, but the test is a defect,
// either of the test or of the code. The report names it.
package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Test names a test of a package. An empty name stands for the package itself, which fails if it does
// not compile or if its process ends early.
type Test struct {
	Package, Name string
}

// String returns the package's import path and the test's name.
func (t Test) String() string { return strings.TrimSpace(t.Package + " " + t.Name) }

// Again returns the command that runs the test again, for a checkout of the module prefix.
func (t Test) Again(prefix string) string {
	command := "make test PKG=./" + strings.TrimPrefix(strings.TrimPrefix(t.Package, prefix), "/")
	if t.Name == "" {
		return command
	}
	root, _, _ := strings.Cut(t.Name, "/")
	return command + " RUN='^" + root + "$'"
}

// Outcome is how often a test ran, and how often it failed.
type Outcome struct {
	Test
	Runs, Failures int
}

// Report is the outcome of a run.
type Report struct {
	// Tests and Again count tests with subtests: all of them, and the ones that ran again because they
	// failed.
	Tests, Again int
	// Flaky tests failed, and passed in the end. Failed tests failed in the end. Both are in the order of
	// their names, and hold a test with subtests only if it failed by itself.
	Flaky, Failed []Outcome
	// Packages are in descending order of their time on the clock.
	Packages []Package

	roots map[Test]bool // the tests that ran and are not subtests, and whether they passed in the end
}

// Package is a package with the time of its tests on the clock.
type Package struct {
	Path string
	Time time.Duration
}

// event is one line of test2json (go doc test2json).
type event struct {
	Action, Package, Test string
	Elapsed               float64 // seconds
}

// record is the outcome of a test.
type record struct {
	outcome    Outcome
	passedLast bool
}

// Read reads the events of a run, in the order in which they happened. An input without events is an
// empty report, as if nothing was run.
func Read(from io.Reader) (Report, error) {
	records, times := map[Test]*record{}, map[string]time.Duration{}
	for decoder := json.NewDecoder(from); ; {
		var e event
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			return report(records, times), nil
		case err != nil:
			return Report{}, fmt.Errorf("read events: %w", err)
		}
		if e.Action != "pass" && e.Action != "fail" {
			continue
		}
		test := Test{Package: e.Package, Name: e.Test}
		if records[test] == nil {
			records[test] = &record{outcome: Outcome{Test: test}}
		}
		r := records[test]
		r.outcome.Runs++
		if r.passedLast = e.Action == "pass"; !r.passedLast {
			r.outcome.Failures++
		}
		if e.Test == "" {
			times[e.Package] += time.Duration(e.Elapsed * float64(time.Second))
		}
	}
}

func report(records map[Test]*record, times map[string]time.Duration) Report {
	// A test fails with its subtest, and a package with its test: only the innermost one tells why.
	explained := map[Test]bool{}
	for test, r := range records {
		for outer := test; r.outcome.Failures > 0 && outer.Name != ""; {
			outer = outer.outer()
			explained[outer] = true
		}
	}
	made := Report{roots: map[Test]bool{}}
	for test, r := range records {
		if test.Name != "" {
			if !strings.Contains(test.Name, "/") {
				made.roots[test] = r.passedLast
			}
			made.Tests++
			if r.outcome.Runs > 1 && r.outcome.Failures > 0 {
				made.Again++
			}
		}
		switch {
		case r.outcome.Failures == 0 || explained[test]:
		case r.passedLast:
			made.Flaky = append(made.Flaky, r.outcome)
		default:
			made.Failed = append(made.Failed, r.outcome)
		}
	}
	for _, outcomes := range [][]Outcome{made.Flaky, made.Failed} {
		slices.SortFunc(outcomes, func(a, b Outcome) int { return cmp.Compare(a.String(), b.String()) })
	}
	for _, path := range slices.Sorted(maps.Keys(times)) {
		made.Packages = append(made.Packages, Package{Path: path, Time: times[path]})
	}
	slices.SortStableFunc(made.Packages, func(a, b Package) int { return cmp.Compare(b.Time, a.Time) })
	return made
}

// outer returns the test of which t is a subtest, or its package.
func (t Test) outer() Test {
	last := strings.LastIndexByte(t.Name, '/')
	return Test{Package: t.Package, Name: t.Name[:max(last, 0)]}
}
