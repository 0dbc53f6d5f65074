// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package derive_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// setsOf returns surroundings of the project default, which lists the set base.
func setsOf(version uint64, sets map[string]*catalog.Config) derive.Sets {
	project := catalog.DefaultProject()
	project.Spec.ConfigSets = []string{"base"}
	return derive.Sets{
		Version: version,
		Project: func(name string) *catalog.Project {
			if name != project.Name {
				return nil
			}
			return project
		},
		Set: func(path string) *catalog.ConfigSet {
			config := sets[path]
			if config == nil {
				return nil
			}
			set := &catalog.ConfigSet{Metadata: catalog.Metadata{Name: path}, SecretMarks: map[string]catalog.SecretMark{}, Spec: catalog.ConfigSetSpec{Config: config}}
			for key, text := range config.Secrets {
				set.SecretMarks[key] = catalog.SecretMark{Digest: "mark of " + text.Reveal(), Bytes: len(text)}
			}
			return set
		},
	}
}

// TestConfigurationsAreComposedAsIfEachWereAlone derives for many clusters with one compiled global service,
// which remembers configurations by their facts, through changes of sets. Each cluster has what it has from
// a global service that was compiled for it alone.
func TestConfigurationsAreComposedAsIfEachWereAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := []string{
			"hub://base/K", "hub://set-${cluster.labels.a}/K", "hub://set-${cluster.labels.b}/L?", "hub://${cluster.name}/K?", "hub://chain/K", "hub://absent/K?",
		}
		reference := rapid.SampledFrom(texts)
		g := web(func(s *catalog.GlobalServiceSpec) {
			s.Template.Spec.ConfigSets = []string{"set-x"}
			s.Template.Spec.Config = &catalog.Config{References: map[string]string{"ONE": reference.Draw(t, "one"), "TWO": reference.Draw(t, "two")}}
			s.Overrides = []catalog.ServiceOverride{{
				Name: "o", Clusters: byLabel("a", "y"), Config: &catalog.Config{Values: map[string]string{"N": "${{ self.name }}"}},
			}}
		})
		var clusters []*catalog.Cluster
		for i := range rapid.IntRange(1, 12).Draw(t, "clusters") {
			labels := map[string]string{}
			for _, name := range []string{"a", "b"} {
				if value := rapid.SampledFrom([]string{"x", "y", "z", ""}).Draw(t, name); value != "" {
					labels[name] = value
				}
			}
			clusters = append(clusters, cluster(fmt.Sprint("c", i), labels, "").Seen)
		}
		shared := compiled(t, g)
		for version := range rapid.IntRange(1, 4).Draw(t, "versions") {
			all := map[string]*catalog.Config{"chain": {References: map[string]string{"K": reference.Draw(t, "chain")}}}
			for _, name := range []string{"base", "set-x", "set-y", "c1"} {
				if rapid.Bool().Draw(t, "has "+name) {
					all[name] = &catalog.Config{
						Values:  map[string]string{"K": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")},
						Secrets: map[string]secret.Text{"L": secret.Text(rapid.SampledFrom([]string{"s", "t"}).Draw(t, "secret"))},
					}
				}
			}
			sets := setsOf(uint64(version), all)
			shared.Use(sets)
			for _, c := range clusters {
				alone := compiled(t, g)
				alone.Use(sets)
				got, want := derivedFor(t, shared, &derive.Cluster{Seen: c}), derivedFor(t, alone, &derive.Cluster{Seen: c})
				if !derive.Same(got, want) || got.ConfigDigest == "" && !got.ConfigWaits {
					t.Fatalf("%s: got %s %v, want %s %v", c.Name, got.ConfigDigest, got.ConfigProblem, want.ConfigDigest, want.ConfigProblem)
				}
			}
		}
	})
}

// TestSecretsOfSetsCountByTheirLength has secrets that are too large together. The hub has their marks alone
// when it composes a configuration.
func TestSecretsOfSetsCountByTheirLength(t *testing.T) {
	t.Parallel()
	secrets := map[string]secret.Text{}
	for i := range 9 {
		secrets[fmt.Sprint("S", i)] = secret.Text(make([]byte, 60<<10))
	}
	for size, isTooLarge := range map[int]bool{8: false, 9: true} {
		given := map[string]secret.Text{}
		for i := range size {
			given[fmt.Sprint("S", i)] = secrets[fmt.Sprint("S", i)]
		}
		g := compiled(t, web())
		g.Use(setsOf(1, map[string]*catalog.Config{"base": {Secrets: given}}))
		got := derivedFor(t, g, cluster("one", nil, ""))
		if got.ConfigWaits != isTooLarge || isTooLarge != (got.ConfigProblem != nil) {
			t.Errorf("%d secrets: got %v, %v", size, got.ConfigWaits, got.ConfigProblem)
		}
	}
}
