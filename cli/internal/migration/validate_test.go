// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// changed returns a service that the hub takes, with a change.
func changed(change func(*fleetv1.ServiceSpec, *typev1.Source)) *fleetv1.Document {
	d, spec := migration.NewServices(migration.Settings{}).New("berlin", "shop", "web")
	source := &typev1.Source{Repository: "charts"}
	spec.Sources = []*typev1.Source{source}
	change(spec, source)
	return d
}

func TestValidateAccepts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fleetv1.ServiceSpec, *typev1.Source){
		"no more than needed": func(*fleetv1.ServiceSpec, *typev1.Source) {},
		"a part of a repository": func(_ *fleetv1.ServiceSpec, s *typev1.Source) {
			s.Path, s.Root, s.Folders, s.Exclude = "a/b", "a", []string{"c"}, []string{"*.md", "!/a"}
		},
		"the whole repository": func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Path, s.Root = "a/b", "." },
		"a commit":             func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Ref = commit("0123456") },
		"a name":               func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Ref = named("refs/pull/1/head") },
		"a chart": func(_ *fleetv1.ServiceSpec, s *typev1.Source) {
			s.Chart, s.Ref = "web", &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: "~1.2"}}
		},
		"values": func(s *fleetv1.ServiceSpec, _ *typev1.Source) {
			s.Config = &fleetv1.ServiceConfig{Values: map[string]string{"_A1": "ä"}}
		},
	} {
		if err := migration.Validate(changed(change)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func commit(id string) *typev1.GitRef {
	return &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: id}}
}

func named(name string) *typev1.GitRef {
	return &typev1.GitRef{Selector: &typev1.GitRef_Name{Name: name}}
}

func branch(name string) *typev1.GitRef {
	return &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: name}}
}

// TestValidateRefuses names the field as documents spell it.
func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 257 {
		many[fmt.Sprint("K", i)] = ""
	}
	for _, test := range []struct {
		field  string
		change func(*fleetv1.ServiceSpec, *typev1.Source)
	}{
		{"spec.cluster", func(s *fleetv1.ServiceSpec, _ *typev1.Source) { s.Cluster = "No Cluster" }},
		{"spec.namespace", func(s *fleetv1.ServiceSpec, _ *typev1.Source) { s.Namespace = "A" }},
		{"spec.policy.serviceAccount", func(s *fleetv1.ServiceSpec, _ *typev1.Source) { s.Policy = &typev1.SyncPolicy{ServiceAccount: "/"} }},
		{"spec.sources", func(s *fleetv1.ServiceSpec, _ *typev1.Source) { s.Sources = make([]*typev1.Source, 17) }},
		{"spec.config", func(s *fleetv1.ServiceSpec, _ *typev1.Source) { s.Config = &fleetv1.ServiceConfig{Values: many} }},
		{"spec.config.values", func(s *fleetv1.ServiceSpec, _ *typev1.Source) {
			s.Config = &fleetv1.ServiceConfig{Values: map[string]string{"a-b": ""}}
		}},
		{"spec.config.values", func(s *fleetv1.ServiceSpec, _ *typev1.Source) {
			s.Config = &fleetv1.ServiceConfig{Values: map[string]string{"A": "\xff"}}
		}},
		{"spec.config", func(s *fleetv1.ServiceSpec, _ *typev1.Source) {
			s.Config = &fleetv1.ServiceConfig{Values: map[string]string{}}
			for i := range 9 {
				s.Config.Values[fmt.Sprint("K", i)] = strings.Repeat("x", 64<<10)
			}
		}},
		{"spec.sources[0].path", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Path = "a/../../b" }},
		{"spec.sources[0].path", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Path = strings.Repeat("x", 4097) }},
		{"spec.sources[0].root", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Path, s.Root = "a", "b" }},
		{"spec.sources[0].folders[0]", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Folders = []string{"/etc"} }},
		{"spec.sources[0].exclude", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Exclude = make([]string, 101) }},
		{"spec.sources[0].exclude[0]", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Exclude = []string{"# no pattern"} }},
		{"spec.sources[0].chart", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Chart = "a/b" }},
		{"spec.sources[0].layer.mediaType", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Layer = &typev1.ArtifactLayer{MediaType: "tar"} }},
		{"spec.sources[0].ref.branch", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Ref = branch("a..b") }},
		{"spec.sources[0].ref.branch", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Ref = branch("a/.b") }},
		{"spec.sources[0].ref.branch", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Ref = branch("") }},
		{"spec.sources[0].ref.name", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Ref = named("main") }},
		{"spec.sources[0].ref.commit", func(_ *fleetv1.ServiceSpec, s *typev1.Source) { s.Ref = commit("main") }},
		{"spec.sources[0].ref.tag", func(_ *fleetv1.ServiceSpec, s *typev1.Source) {
			s.Ref = &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: "a b"}}
		}},
		{"spec.sources[0].ref.semver", func(_ *fleetv1.ServiceSpec, s *typev1.Source) {
			s.Ref = &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: "new"}}
		}},
	} {
		err := migration.Validate(changed(test.change))
		if field, isField := errors.AsType[*fielderr.Error](err); !isField || field.Path != test.field {
			t.Errorf("want an error at %s, got %.200v", test.field, err)
		}
	}
	repository := migration.NewRepositories("").Git("file:///srv/app")
	if err := migration.Validate(repository); err == nil || !strings.HasPrefix(err.Error(), "spec.url: ") {
		t.Errorf("a folder for a repository: %v", err)
	}
}

// TestManyOfOneName gives 100,000 services of one name names of their own. It would not end if each tried all numbers.
func TestManyOfOneName(t *testing.T) {
	t.Parallel()
	services, seen := migration.NewServices(migration.Settings{}), map[string]bool{}
	for range 100_000 {
		d, _ := services.New("berlin", "", "web")
		seen[d.GetService().GetMetadata().GetName()] = true
	}
	if len(seen) != 100_000 {
		t.Errorf("got %d names", len(seen))
	}
}

// TestFilesOfOthers reads objects that the tool's own refer to, and says nothing of templates around them.
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"map.yaml":      "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n",
		"template.yaml": "kind: ConfigMap\n{{ if .Name }}\n",
		"own.yaml":      "apiVersion: tool.example/v1\n{{ if .Name }}\n",
		"other.yaml":    "kind: Secret\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tool := migration.Tool{Marks: []string{"tool.example/"}, Also: []string{"ConfigMap"}, Wants: func(*unstructured.Unstructured) bool { return true }}
	objects, unread, err := migration.Read(t.Context(), tool, []string{folder}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.String())
	}
	for _, entry := range unread {
		got = append(got, entry.Object)
	}
	if diff := cmp.Diff([]string{"ConfigMap a", "own.yaml"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
