// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// stagedFields records for each field of a spec, and of each option, whether rollouts stage it. A
// new field needs a line here, and the decision that the line records.
var stagedFields = map[string]bool{
	"Cluster": false, "Sources": true, "Config": false, "ConfigSets": false,

	"Options.Namespace": true, "Options.CreateNamespace": true, "Options.Prune": true, "Options.HealthTimeout": true,
	"Options.ForceConflicts": true, "Options.PruneConfirmation": false, "Options.Paused": false, "Options.PausedUntil": false, "Options.DryRun": false,
	"Options.Renderer": true, "Options.Render": true, "Options.Policy": true,
}

// fill sets a value to one that is not its zero.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(1, 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		fill(v.Field(0))
	default:
		panic("a kind of field that the test does not know: " + v.Type().String())
	}
}

// eachField calls fn with each field of a spec, and of its options, by a spec in which that field alone is set.
func eachField(t *testing.T, fn func(name string, spec catalog.ServiceSpec)) {
	t.Helper()
	for field := range reflect.TypeFor[catalog.ServiceSpec]().Fields() {
		if field.Name == "Options" {
			continue
		}
		var spec catalog.ServiceSpec
		fill(reflect.ValueOf(&spec).Elem().FieldByIndex(field.Index))
		fn(field.Name, spec)
	}
	for field := range reflect.TypeFor[syncpolicy.Options]().Fields() {
		spec := catalog.ServiceSpec{Options: &syncpolicy.Options{}}
		fill(reflect.ValueOf(spec.Options).Elem().FieldByIndex(field.Index))
		fn("Options."+field.Name, spec)
	}
}

// TestEveryFieldIsStagedOrReachesAtOnce holds the two parts of a spec apart: a field that is staged follows
// the release, any other field follows the document, and no field is in both parts or in none.
func TestEveryFieldIsStagedOrReachesAtOnce(t *testing.T) {
	t.Parallel()
	empty := catalog.ServiceSpec{}
	seen := 0
	eachField(t, func(name string, spec catalog.ServiceSpec) {
		seen++
		isStaged, ok := stagedFields[name]
		if !ok {
			t.Errorf("%s is new: decide in Staged whether it is staged, and add it to the table", name)
			return
		}
		if differs := spec.Staged().Digest != empty.Staged().Digest; differs != isStaged {
			t.Errorf("%s: another value makes another staged spec: %v, want %v", name, differs, isStaged)
		}
		same := func(a, b catalog.ServiceSpec) bool {
			options := a.Wanted().Equal(b.Wanted())
			a.Options, b.Options = nil, nil
			return options && reflect.DeepEqual(a, b)
		}
		if kept := same(spec.At(empty.Staged()), spec); kept == isStaged {
			t.Errorf("%s: the field of the document is kept over an older release: %v, want %v", name, kept, !isStaged)
		}
		if brought := same(empty.At(spec.Staged()), spec); brought != isStaged {
			t.Errorf("%s: a release brings the field: %v, want %v", name, brought, isStaged)
		}
	})
	if seen != len(stagedFields) {
		t.Errorf("got %d fields, and the table has %d", seen, len(stagedFields))
	}
}

// TestChangesOfSpecs returns the differences between specs. It shows no values.
func TestChangesOfSpecs(t *testing.T) {
	t.Parallel()
	helm := func(tag string) []renderstep.Step {
		return []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Values: map[string]any{"tag": tag}}}}
	}
	source := catalog.Source{Repository: "demo", Path: "app", Ref: catalog.Ref{Kind: catalog.RefTag, Value: "v1"}}
	from := catalog.ServiceSpec{Sources: []catalog.Source{source}, Options: &syncpolicy.Options{Render: helm("secret-1")}}
	for name, test := range map[string]struct {
		change func(*catalog.Source, *syncpolicy.Options)
		want   []string
	}{
		"nothing": {func(*catalog.Source, *syncpolicy.Options) {}, nil},
		"paused":  {func(_ *catalog.Source, o *syncpolicy.Options) { o.Paused = true }, nil},
		"ref":     {func(s *catalog.Source, _ *syncpolicy.Options) { s.Ref.Value = "v2" }, []string{"source ref v1 -> v2"}},
		"HEAD":    {func(s *catalog.Source, _ *syncpolicy.Options) { s.Ref = catalog.Ref{} }, []string{"source ref v1 -> HEAD"}},
		"version": {func(s *catalog.Source, _ *syncpolicy.Options) { s.Chart, s.Path, s.Ref.Value = "web", "", "2.0.0" }, []string{
			"source version v1 -> 2.0.0", "source path app -> none", "source chart none -> web",
		}},
		"patterns": {func(s *catalog.Source, _ *syncpolicy.Options) { s.Include = catalog.NewList([]string{"*"}) }, []string{"source selection"}},
		"values":   {func(_ *catalog.Source, o *syncpolicy.Options) { o.Render = helm("secret-2") }, []string{"values"}},
		"steps":    {func(_ *catalog.Source, o *syncpolicy.Options) { o.Render = nil }, []string{"render steps"}},
		"options": {func(_ *catalog.Source, o *syncpolicy.Options) {
			o.Namespace, o.Prune, o.Policy.Recreate = "shop", new(false), true
		}, []string{"namespace default -> shop", "prune", "policy recreate"}},
	} {
		to, options := source, *from.Options
		test.change(&to, &options)
		got := from.Staged().Changes(catalog.ServiceSpec{Sources: []catalog.Source{to}, Options: &options}.Staged())
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func drawSpec(t *rapid.T) catalog.ServiceSpec {
	text := rapid.SampledFrom([]string{"", "a", "b"})
	spec := catalog.ServiceSpec{Cluster: "one"}
	for range rapid.IntRange(0, 2).Draw(t, "sources") {
		spec.Sources = append(spec.Sources, catalog.Source{
			Repository: "demo", Path: text.Draw(t, "path"), Mount: text.Draw(t, "mount"), Ref: catalog.Ref{Kind: catalog.RefBranch, Value: text.Draw(t, "ref")},
		})
	}
	if rapid.Bool().Draw(t, "has options") {
		spec.Options = &syncpolicy.Options{
			Namespace: text.Draw(t, "namespace"), Paused: rapid.Bool().Draw(t, "paused"), DryRun: rapid.Bool().Draw(t, "dry run"),
			PruneConfirmation: text.Draw(t, "confirmation"),
		}
		if rapid.Bool().Draw(t, "has values") {
			values := map[string]any{"tag": text.Draw(t, "tag"), "replicas": float64(rapid.IntRange(1, 2).Draw(t, "replicas"))}
			spec.Options.Render = []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Values: values}}}
		}
	}
	return spec
}

// TestStagedSpecs takes specs apart and puts them together again.
func TestStagedSpecs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSpec(t), drawSpec(t)
		if whole := a.At(a.Staged()); !whole.Wanted().Equal(a.Wanted()) || !reflect.DeepEqual(whole.Sources, a.Sources) {
			t.Fatalf("got %+v from the parts of %+v", whole, a)
		}
		mixed := a.At(b.Staged())
		if mixed.Staged().Digest != b.Staged().Digest {
			t.Fatal("the staged part of a spec is not the one that it was given")
		}
		if own, got := a.Wanted(), mixed.Wanted(); got.Paused != own.Paused || got.DryRun != own.DryRun || got.PruneConfirmation != own.PruneConfirmation {
			t.Fatalf("got the brakes of %+v, want those of %+v", got, own)
		}
		text, err := json.Marshal(a.Staged())
		if err != nil {
			t.Fatal(err)
		}
		var stored catalog.StagedSpec
		if err := json.Unmarshal(text, &stored); err != nil || stored.Digest != a.Staged().Digest {
			t.Fatalf("got digest %q (%v) from the stored form, want %q", stored.Digest, err, a.Staged().Digest)
		}
	})
}

// TestReleasesAreNamedByWhatTheyHold compares releases by their names.
func TestReleasesAreNamedByWhatTheyHold(t *testing.T) {
	t.Parallel()
	source := catalog.Source{Repository: "demo", Path: "app"}
	spec := catalog.ServiceSpec{Sources: []catalog.Source{source}}
	held := func(commit, content string) []catalog.HeldSource {
		return []catalog.HeldSource{{Source: source, Snapshot: catalog.Snapshot{Commit: commit, Digest: digest.FromBytes([]byte(content))}}}
	}
	first := catalog.Release{Spec: spec.Staged(), Content: held("c1", "x")}
	other := spec
	other.Options = &syncpolicy.Options{Namespace: "shop"}
	spelled := catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "demo", Path: "./app/"}}, Options: &syncpolicy.Options{Paused: true}}
	for name, test := range map[string]struct {
		release catalog.Release
		isSame  bool
	}{
		"another commit of the same content": {catalog.Release{Spec: spec.Staged(), Content: held("c2", "x")}, true},
		"another spelling, and paused":       {catalog.Release{Spec: spelled.Staged(), Content: held("c1", "x")}, true},
		"other content":                      {catalog.Release{Spec: spec.Staged(), Content: held("c1", "y")}, false},
		"another option":                     {catalog.Release{Spec: other.Staged(), Content: held("c1", "x")}, false},
		"of an earlier version":              {catalog.Release{Content: held("c1", "x")}, false},
	} {
		if isSame := test.release.Name() == first.Name(); isSame != test.isSame {
			t.Errorf("%s: got the same name: %v, want %v", name, isSame, test.isSame)
		}
	}
}
