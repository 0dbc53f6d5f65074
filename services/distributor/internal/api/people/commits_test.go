// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpansToACommit(t *testing.T) {
	t.Parallel()
	states := [][]string{{"a3", "b2"}, {"a3", "b2"}, {"a2", "b2"}, {"old"}, {"a1", "b1"}}
	for name, test := range map[string]struct {
		commit string
		states [][]string
		want   []span
		found  bool
	}{
		"what the sources have now":             {"", states, []span{{0, "a3", "a2"}, {1, "b2", "b1"}}, true},
		"a commit that is there now":            {"a3", states, []span{{0, "a3", "a2"}}, true},
		"a commit of before":                    {"a2", states, []span{{0, "a2", "a1"}}, true},
		"a commit that lasted for two steps":    {"b2", states, []span{{1, "b2", "b1"}}, true},
		"the oldest one that is known":          {"a1", states, []span{{0, "a1", ""}}, true},
		"one of when there were other sources":  {"old", states, nil, false},
		"one of nobody":                         {"c1", states, nil, false},
		"the beginning of one":                  {"a", states, nil, false},
		"nothing yet":                           {"", nil, nil, true},
		"a source that was never resolved":      {"", [][]string{{"", "b1"}}, []span{{1, "b1", ""}}, true},
		"one that was resolved later":           {"", [][]string{{"a1", "b1"}, {"", "b1"}}, []span{{0, "a1", ""}, {1, "b1", ""}}, true},
		"content that has a digest and no past": {"", [][]string{{"sha256:1", "b1"}}, []span{{1, "b1", ""}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := spansTo(test.commit, 2, test.states)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(span{})); diff != "" || ok != test.found {
				t.Errorf("found %v, want %v; spans (-want +got):\n%s", ok, test.found, diff)
			}
		})
	}
}
