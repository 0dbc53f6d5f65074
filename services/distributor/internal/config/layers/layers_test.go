// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package layers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type pairs = map[string]string

func set(path string, values, references pairs) *catalog.ConfigSet {
	s := &catalog.ConfigSet{Metadata: catalog.Metadata{Name: path}}
	s.Spec.Config = &catalog.Config{Values: values, References: references}
	return s
}

// finder returns sets by path.
func finder(sets ...*catalog.ConfigSet) func(string) *catalog.ConfigSet {
	return func(path string) *catalog.ConfigSet {
		for _, s := range sets {
			if s.Name == path {
				return s
			}
		}
		return nil
	}
}

func own(config *catalog.Config) layers.Layer {
	return layers.Layer{Origin: layers.Origin{Kind: layers.OfService}, Project: "default", Config: config}
}

func TestLastLayerWinsWhole(t *testing.T) {
	t.Parallel()
	base, more := set("base", pairs{"A": "base", "B": "base"}, nil), set("more", nil, pairs{"B": "vault://shop/db#b"})
	won := layers.Merge([]layers.Layer{
		layers.SetLayer(layers.OfProject, base), layers.SetLayer(layers.OfSet, more), own(&catalog.Config{Secrets: map[string]secret.Text{"B": "own"}}),
	})
	ofBase := layers.Origin{Kind: layers.OfProject, Set: "base"}
	want := map[string]layers.Won{
		"A": {Item: layers.Item{Origin: ofBase, Project: "default", Text: "base"}},
		"B": {
			Item: layers.Item{Origin: layers.Origin{Kind: layers.OfService}, Project: "default", Form: layers.Secret, Text: "own"},
			Shadows: []layers.Item{
				{Origin: layers.Origin{Kind: layers.OfSet, Set: "more"}, Project: "default", Form: layers.Reference, Text: "vault://shop/db#b"},
				{Origin: ofBase, Project: "default", Text: "base"},
			},
		},
	}
	if diff := cmp.Diff(want, won); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func facts() catalog.ConfigFacts {
	return catalog.FactsOf("shop.web@platform.berlin", &catalog.Cluster{Metadata: catalog.Metadata{
		Name: "platform.berlin", Labels: pairs{"region": "eu", "topology.kubernetes.io/zone": "eu-1"}, Annotations: pairs{"example.com/folder": "f"},
	}}, &catalog.Project{Metadata: catalog.Metadata{Name: "shop"}}, &catalog.Project{
		Metadata: catalog.Metadata{Name: "platform"}, Spec: catalog.ProjectSpec{Shares: []catalog.ProjectShare{{
			Projects: catalog.Selection{All: true}, Clusters: catalog.Selection{All: true}, ClusterAnnotations: syncpolicy.AllowList{"example.com/*"},
		}}},
	})
}

func TestCompose(t *testing.T) {
	t.Parallel()
	long := []*catalog.ConfigSet{}
	for i := range catalog.MaxHubHops + 1 {
		long = append(long, set(fmt.Sprintf("s%d", i), nil, pairs{"K": fmt.Sprintf("hub://s%d/K", i+1)}))
	}
	find := finder(append(long,
		set("base", pairs{"V": "value"}, pairs{"R": "vault://shop/${cluster.labels.region}#r", "O": "hub://base/NONE?"}),
		set("shop.near", pairs{"V": "near"}, nil), set("shop.far", nil, pairs{"V": "hub://near/V"}),
		set("x", nil, pairs{"K": "hub://y/K"}), set("y", nil, pairs{"K": "hub://x/K"}),
		set("end", pairs{"K": "end"}, nil),
		set("t7", nil, pairs{"K": "hub://end/K"}))...)
	for _, test := range []struct {
		reference, final string
		form             layers.Form
		why              reason.Reason
	}{
		{reference: "hub://base/V", final: "value"},
		{reference: "hub://base/R", final: "vault://shop/eu#r", form: layers.Reference},
		{reference: "hub://base/R?", final: "vault://shop/eu#r?", form: layers.Reference},
		{reference: "hub://shop/far/V", final: "near"}, // in whose project near is another set
		{reference: "hub://base/O", final: ""},
		{reference: "hub://none/V?", final: ""},
		{reference: "hub://none/V", why: reason.ConfigMissing},
		{reference: "hub://base/NONE", why: reason.ConfigMissing},
		{reference: "hub://x/K", why: reason.ConfigReferenceInvalid},
		{reference: "hub://x/K?", why: reason.ConfigReferenceInvalid},
		{reference: "hub://s0/K", why: reason.ConfigReferenceInvalid},
		{reference: "hub://t7/K", final: "end"},
		{
			reference: "v://${project}/${service.name}/${cluster.project}-${cluster.name}/${cluster.labels.topology.kubernetes.io/zone}#${cluster.annotations.example.com/folder}",
			final:     "v://shop/web/platform-berlin/eu-1#f", form: layers.Reference,
		},
		{reference: "v://a/${cluster.labels.none}#k", why: reason.ConfigReferenceInvalid},
		{reference: "v://a/${cluster.labels.none}#k?", final: ""},
	} {
		out := layers.Compose(layers.Input{Layers: []layers.Layer{own(&catalog.Config{References: pairs{"K": test.reference}})}, Facts: facts(), Find: find})
		got := out.Keys["K"]
		if test.why != 0 {
			if out.Problem == nil || out.Problem.Reason != test.why || !out.Waits || got.Final.Text != "" {
				t.Errorf("%s: got %v, want that the service waits for %v", test.reference, out.Problem, test.why)
			}
			continue
		}
		if out.Problem != nil || out.Waits || got.Final.Text.Reveal() != test.final || test.final != "" && got.Final.Form != test.form || got.IsAbsent != (test.final == "") {
			t.Errorf("%s: got %q of form %d and %v, want %q", test.reference, got.Final.Text.Reveal(), got.Final.Form, out.Problem, test.final)
		}
	}
}

func TestComposeIsBounded(t *testing.T) {
	t.Parallel()
	many, large := pairs{}, []layers.Layer{}
	for i := range catalog.MaxConfigKeys {
		many[fmt.Sprintf("K%d", i)] = ""
	}
	for i := range 9 {
		large = append(large, own(&catalog.Config{Values: pairs{fmt.Sprintf("L%d", i): strings.Repeat("x", 64<<10)}}))
	}
	for name, in := range map[string][]layers.Layer{"keys": {own(&catalog.Config{Values: many}), own(&catalog.Config{Values: pairs{"ONE": ""}})}, "bytes": large} {
		out := layers.Compose(layers.Input{Layers: in, Facts: facts(), Find: finder()})
		if len(out.Keys) != 0 || !out.Waits || out.Problem == nil || out.Problem.Reason != reason.ConfigTooLarge {
			t.Errorf("%s: got %d keys and %v", name, len(out.Keys), out.Problem)
		}
	}
}

// TestSecFactsStayWithinOneElement puts a label or an annotation of any text into a reference whose
// first element is fixed. Whatever comes out leads to that back end, below that element, at that
// depth.
func TestSecFactsStayWithinOneElement(t *testing.T) {
	t.Parallel()
	attacks := []string{"..", ".", "/", "../..", "a/../../b", "%2e%2e", "a#b", "?", "*", "**", "\\", "://", "x://y", "${project}", "\x00", "\u2215", "a\nb", ""}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.SampledFrom(attacks), rapid.String()).Draw(t, "value")
		shape := rapid.SampledFrom([]string{"v://safe/%s/db#k", "v://safe/a%s/db#k", "v://safe/.%s/db#k", "v://safe/%[1]s%[1]s/db#k"}).Draw(t, "shape")
		text := strings.ReplaceAll(strings.ReplaceAll(shape, "%[1]s", "%s"), "%s", "${cluster.annotations.x}")
		f := facts()
		f.Annotations = pairs{"x": value}
		out := layers.Compose(layers.Input{Layers: []layers.Layer{own(&catalog.Config{References: pairs{"K": text}})}, Facts: f, Find: finder()})
		key := out.Keys["K"]
		if key.Err != nil {
			if invalid, ok := errors.AsType[*catalog.FactError](key.Err); ok && len(value) > 8 && strings.Contains(invalid.Error(), value) {
				t.Fatalf("the error repeats the value: %v", invalid)
			}
			return
		}
		reference, err := catalog.ParseReference(key.Final.Text.Reveal())
		if err != nil || reference.Backend != "v" || reference.Key != "k" || reference.Optional || strings.Count(reference.Path, "/") != 2 ||
			!strings.HasPrefix(reference.Path, "safe/") || !strings.HasSuffix(reference.Path, "/db") || strings.Contains(reference.Path, "/../") {
			t.Fatalf("%q in %s leads to %q", value, text, key.Final.Text.Reveal())
		}
	})
}

// TestSecFactsDoNotNameBackEnds has facts where a reviewer must see a name, and facts that do not exist.
func TestSecFactsDoNotNameBackEnds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"${cluster.name}://a#k", "${cluster.labels.region}://a#k", "v${project}://a#k", "hub://${cluster.labels.region}/s/K", "hub://a${project}/s/K",
		"v://${PATH}#k", "v://${cluster.token}#k", "v://${cluster.labels.}#k", "v://${cluster.labels.a#k", "v://${${project}}#k", "v://$${project}#k", "v://${}#k",
	} {
		service := &catalog.Service{Metadata: catalog.Metadata{Name: "a@one"}, Spec: catalog.ServiceSpec{
			Cluster: "one", Sources: []catalog.Source{{Repository: "r"}}, Config: &catalog.Config{References: pairs{"K": text}},
		}}
		if err := service.Validate(); err == nil || !strings.Contains(err.Error(), "spec.config.references[K]") {
			t.Errorf("%s: got %v, want that the document is refused", text, err)
		}
	}
}
