// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/render"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	text := "a: ${A}\nb: \"${B:-b}-${C:=}\" $${D} ${1} ${E\nf: ${F:-x ${G:-y}\n} ${H:-open\n$${I}${J}"
	want := []render.Reference{
		{Name: "A", Line: 1},
		{Name: "B", Default: "b", HasDefault: true, Line: 2},
		{Name: "C", HasDefault: true, Line: 2},
		{Name: "F", Default: "x y\n", HasDefault: true, Line: 3},
		{Name: "G", Default: "y", HasDefault: true, Line: 3},
		{Name: "H", Default: "open\n${I", HasDefault: true, Line: 4},
		{Name: "J", Line: 5},
	}
	if diff := cmp.Diff(want, render.References(text)); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	manifests := "a: ${A}\n---\nmetadata: {annotations: {leat.dev/substitute: disabled}}\nb: ${B}\n---\nc: ${C}\n"
	if diff := cmp.Diff([]render.Reference{{Name: "A", Line: 1}, {Name: "C", Line: 6}}, render.ManifestReferences([]byte(manifests))); diff != "" {
		t.Errorf("references of manifests (-want +got):\n%s", diff)
	}
}

// TestSecReferencesOfAHostileTextAreFast searches texts whose defaults never end. A search that
// goes over the rest of the text at each reference takes longer than the test waits.
func TestSecReferencesOfAHostileTextAreFast(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, text := range []string{strings.Repeat("${A:-", 1<<19), strings.Repeat("${A:-x", 1<<19) + strings.Repeat("}", 1<<19), strings.Repeat("${", 1<<20)} {
			_ = render.References(text)
		}
	}()
	await.Closed(t, "the references of 8 MiB", done)
}
