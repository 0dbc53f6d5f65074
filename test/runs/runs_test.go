// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package runs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/test/runs"
)

func TestRead(t *testing.T) {
	t.Parallel()
	// The output of gotestsum for a run in which a/TestOne/deep fails and then passes, a/TestTwo fails
	// three times, and b does not compile.
	const events = `
{"Action":"fail","Package":"m/a","Test":"TestOne/deep","Elapsed":1}
{"Action":"fail","Package":"m/a","Test":"TestOne","Elapsed":1}
{"Action":"fail","Package":"m/a","Test":"TestTwo","Elapsed":0.5}
{"Action":"pass","Package":"m/a","Test":"TestThree","Elapsed":0}
{"Action":"skip","Package":"m/a","Test":"TestFour","Elapsed":0}
{"Action":"fail","Package":"m/a","Elapsed":1.5}
{"Action":"fail","Package":"m/b","Elapsed":0}
{"Action":"pass","Package":"m/c","Test":"TestOne","Elapsed":1}
{"Action":"pass","Package":"m/c","Test":"TestOne","Elapsed":1}
{"Action":"pass","Package":"m/c","Elapsed":2}
{"Action":"pass","Package":"m/a","Test":"TestOne/deep","Elapsed":1}
{"Action":"pass","Package":"m/a","Test":"TestOne","Elapsed":1}
{"Action":"pass","Package":"m/a","Elapsed":1}
{"Action":"fail","Package":"m/a","Test":"TestTwo","Elapsed":0.5}
{"Action":"fail","Package":"m/a","Elapsed":0.5}
{"Action":"fail","Package":"m/a","Test":"TestTwo","Elapsed":0.5}
{"Action":"fail","Package":"m/a","Elapsed":0.5}
`
	got, err := runs.Read(strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	want := runs.Report{
		Tests: 5, Again: 3,
		Flaky: []runs.Outcome{{Test: runs.Test{Package: "m/a", Name: "TestOne/deep"}, Runs: 2, Failures: 1}},
		Failed: []runs.Outcome{
			{Test: runs.Test{Package: "m/a", Name: "TestTwo"}, Runs: 3, Failures: 3},
			{Test: runs.Test{Package: "m/b"}, Runs: 1, Failures: 1},
		},
		Packages: []runs.Package{{Path: "m/a", Time: 3500 * time.Millisecond}, {Path: "m/c", Time: 2 * time.Second}, {Path: "m/b"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(runs.Report{})); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if got, want := got.Flaky[0].Again("m"), "make test PKG=./a RUN='^TestOne$'"; got != want {
		t.Errorf("run again: got %s, want %s", got, want)
	}
	if got, want := got.Failed[1].Again("m"), "make test PKG=./b"; got != want {
		t.Errorf("run again: got %s, want %s", got, want)
	}
}

func TestReadRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	if got, err := runs.Read(strings.NewReader("FAIL")); err == nil {
		t.Errorf("got %+v, want an error", got)
	}
}
