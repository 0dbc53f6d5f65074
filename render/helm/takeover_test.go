// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/helm"
)

// takenOver is a chart with a definition, hooks, notes, and objects that depend on the release.
var takenOver = map[string][]byte{
	"chart/Chart.yaml":                     []byte("{apiVersion: v2, name: a, version: 1.0.0, dependencies: [{name: sub, version: 1.x}]}\n"),
	"chart/crds/a.yaml":                    []byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.a.test, annotations: {own: kept}}\n"),
	"chart/templates/a.yaml":               []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.IsInstall }}-{{ .Release.IsUpgrade }}-{{ .Release.Revision }}'}\n"),
	"chart/templates/install.yaml":         []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: install, annotations: {helm.sh/hook: 'pre-install, post-install'}}\n"),
	"chart/templates/both.yaml":            []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: both, annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}\n"),
	"chart/templates/test.yaml":            []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: test, annotations: {helm.sh/hook: test}}\n"),
	"chart/templates/NOTES.txt":            []byte("\nOpen {{ .Release.Name }} with {{ .Values.password }}.\n"),
	"chart/charts/sub/Chart.yaml":          []byte("{apiVersion: v2, name: sub, version: 1.0.0}\n"),
	"chart/charts/sub/templates/NOTES.txt": []byte("not of the chart itself\n"),
}

func renderTakenOver(t *testing.T, options renderstep.HelmOptions, isInstalled bool, variables *render.Variables) render.Output {
	t.Helper()
	engine := render.Engine{Renderers: map[renderstep.Renderer]render.StepRenderer{renderstep.Helm: helm.Renderer{}}}
	out, err := engine.Render(t.Context(), render.Input{
		Files: render.NewFiles(takenOver), Installed: isInstalled, Variables: variables,
		Facts: render.Facts{Service: render.ServiceFacts{Name: "shop"}},
		Steps: []renderstep.Step{{Path: "chart", Renderer: renderstep.Helm, Helm: &options}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func namesOf(out render.Output) (names []string) {
	for _, o := range out.Objects {
		names = append(names, o.GetName())
	}
	slices.Sort(names)
	return names
}

// TestInstalledRelease renders a release that Helm has installed, before and after the first apply.
func TestInstalledRelease(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		option, applied bool
		want            []string
	}{
		{false, false, []string{"as.a.test", "both", "install", "test", "true-false-1"}},
		{true, false, []string{"as.a.test", "both", "false-true-2", "test"}},
		{false, true, []string{"as.a.test", "both", "false-true-2", "install", "test"}}, // the agent skips the hook
		{true, true, []string{"as.a.test", "both", "false-true-2", "install", "test"}},
	} {
		got := namesOf(renderTakenOver(t, renderstep.HelmOptions{Installed: test.option}, test.applied, nil))
		if diff := gocmp.Diff(test.want, got); diff != "" {
			t.Errorf("installed %t, applied %t (-want +got):\n%s", test.option, test.applied, diff)
		}
	}
}

// TestCreatedDefinitions marks the definitions in crds under the policy create, and nothing else.
func TestCreatedDefinitions(t *testing.T) {
	t.Parallel()
	for policy, want := range map[renderstep.CRDPolicy]string{
		renderstep.CRDsApply:  "map[own:kept]",
		renderstep.CRDsCreate: "map[leat.dev/update:disabled own:kept]",
	} {
		for _, o := range renderTakenOver(t, renderstep.HelmOptions{CRDs: policy}, false, nil).Objects {
			if got := fmt.Sprint(o.GetAnnotations()); (o.GetKind() == "CustomResourceDefinition") && got != want {
				t.Errorf("policy %q: got annotations %s, want %s", policy, got, want)
			} else if o.GetKind() != "CustomResourceDefinition" && strings.Contains(got, "leat.dev") {
				t.Errorf("policy %q: %s has annotations %s", policy, o.GetName(), got)
			}
		}
	}
}

// TestSecNotes has notes that show a secret, and some that are larger than the limit: the secret is
// masked, also where the text is cut in the middle of it.
func TestSecNotes(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("hunter2-", 8)
	variables := func(prefix string) *render.Variables {
		return &render.Variables{Secrets: map[string]string{"PASSWORD": secret}, Values: map[string]string{"PREFIX": prefix}}
	}
	values := map[string]any{"password": "${PREFIX}${PASSWORD}"}
	out := renderTakenOver(t, renderstep.HelmOptions{Values: values}, false, variables(""))
	if diff := gocmp.Diff([]string{"Open shop with (masked)."}, out.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	for _, size := range []int{render.MaxNotes - 40, render.MaxNotes, 1 << 20} {
		out = renderTakenOver(t, renderstep.HelmOptions{Values: values}, false, variables(strings.Repeat("ü", size/2)))
		if got := strings.Join(out.Notes, ""); len(got) > render.MaxNotes+len("…") || strings.Contains(got, "hunter2") {
			t.Errorf("%d bytes: got %d bytes of notes, with the secret: %t", size, len(got), strings.Contains(got, "hunter2"))
		}
		text, err := out.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := render.DecodeOutput(text, render.Limits{}); err != nil || !gocmp.Equal(back.Notes, out.Notes) {
			t.Errorf("%d bytes: decoded %d notes, %v", size, len(back.Notes), err)
		}
	}
}
