// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package objecttree_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/objecttree"
)

func TestDocuments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value string
		want  []string // path, a space, and the text
	}{
		"object":               {`{"kind":"A","apiVersion":"v1","n":12345678901234567890,"html":"<&>"}`, []string{`m {"apiVersion":"v1","html":"<&>","kind":"A","n":12345678901234567890}`}},
		"list":                 {`[{"kind":"B"},null,{"kind":"A"}]`, []string{`m: [0] {"kind":"B"}`, `m: [2] {"kind":"A"}`}},
		"map":                  {`{"b":{"kind":"B"},"a":{"kind":"A"}}`, []string{`m: a {"kind":"A"}`, `m: b {"kind":"B"}`}},
		"nested":               {`{"a.b":{"c":[[{"kind":"A"}]]}}`, []string{`m: ["a.b"].c[0][0] {"kind":"A"}`}},
		"without kind":         {`{"apiVersion":"v1"}`, []string{`m {"apiVersion":"v1"}`}},
		"kind that is a group": {`{"kind":{"kind":"A"}}`, []string{`m: kind {"kind":"A"}`}},
		"nothing":              {`{"a":{},"b":[],"c":null}`, nil},
		"null":                 {`null`, nil},
	} {
		documents, err := objecttree.Documents("m", []byte(test.value), render.Limits{})
		var got []string
		for _, d := range documents {
			got = append(got, d.Path+" "+strings.TrimSpace(string(d.Text)))
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestOtherValuesAreErrors(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"web":{"replicas":3}}`: "m: web.replicas: is a number, want an object of Kubernetes",
		`["x"]`:                  "m: [0]: is a text, want",
		`true`:                   "m: is a boolean, want",
		`{`:                      "m: read result: ",
		`{} {}`:                  "m: read result: more than one value",
	} {
		_, err := objecttree.Documents("m", []byte(value), render.Limits{})
		if problem := new(render.Error); !errors.As(err, &problem) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", value, err, want)
		}
	}
}

func TestSecResultsAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value string
		want  render.Limit
	}{
		"text":    {`["` + strings.Repeat("x", 1<<20) + `"]`, render.LimitText},
		"objects": {`[` + strings.Repeat(`{"kind":"A"},`, 10) + `{"kind":"A"}]`, render.LimitObjects},
		"depth":   {strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200), render.LimitDepth},
		"names":   {strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200), render.LimitDepth},
	} {
		_, err := objecttree.Documents("m", []byte(test.value), render.Limits{Text: 1 << 20, Objects: 10})
		if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != test.want {
			t.Errorf("%s: got %v, want a LimitError of %s", name, err, test.want)
		}
	}
}
