// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
)

// GlobalService is a template of a service and a choice of clusters. For each of them the hub derives
// a service; see package derive.
type GlobalService struct {
	Metadata
	Spec GlobalServiceSpec
	// SecretDigests are keyed digests of the secrets, by key: the template's, then each override's.
	// The store sets them. They show readers whether a secret is another one, and not which it is.
	SecretDigests []map[string]string
}

// GlobalServiceSpec is the desired state of a global service.
type GlobalServiceSpec struct {
	// Description is a sentence for people.
	Description string
	Clusters    ClusterTarget
	Template    ServiceTemplate
	// Overrides are put over the template in their order: a later one wins.
	Overrides []ServiceOverride
	// Paused leaves every derived service unchanged.
	Paused bool
	// PausedUntil is when Paused ends. Zero: it does not.
	PausedUntil time.Time `json:",omitzero"`
	Removal     RemovalPolicy
}

// ClusterTarget selects clusters. Its JSON is its stored form.
type ClusterTarget struct {
	ClusterSelection

	// When is a CEL expression over a cluster's facts; empty: true.
	When string `json:"when,omitempty"`
}

// ServiceTemplate is the template of derived services. Its spec names no cluster.
type ServiceTemplate struct {
	Labels      map[string]string
	Annotations map[string]string
	Spec        ServiceSpec
}

// ServiceOverride holds the differences in some clusters.
type ServiceOverride struct {
	Name     string
	Clusters ClusterTarget
	// ConfigSets are paths of sets, lowest first, below Config. Nil or not empty.
	ConfigSets []string
	// Config is added to the template's. Nil: nothing is added.
	Config *Config
	Patch  ServicePatch
}

// ServicePatch holds the changes of an override besides the configuration. Its JSON is its stored
// form. Nil fields change nothing.
type ServicePatch struct {
	Sources   []SourcePatch     `json:"sources,omitempty"`
	Render    []StepPatch       `json:"render,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Namespace *string           `json:"namespace,omitempty"`
	Paused    *bool             `json:"paused,omitempty"`
	// PausedUntil is when Paused ends. Zero: it does not.
	PausedUntil time.Time          `json:"pausedUntil,omitzero"`
	DryRun      *bool              `json:"dryRun,omitempty"`
	Policy      *syncpolicy.Policy `json:"policy,omitempty"`
}

func (s GlobalServiceSpec) pause() syncpolicy.Pause {
	return syncpolicy.Pause{IsSet: s.Paused, Until: s.PausedUntil}
}

// pause returns the pause that the patch sets, if it sets one.
func (p ServicePatch) pause() syncpolicy.Pause {
	return syncpolicy.Pause{IsSet: p.Paused != nil && *p.Paused, Until: p.PausedUntil}
}

// SourcePatch changes one source of the template.
type SourcePatch struct {
	// Source is its index.
	Source int     `json:"source"`
	Ref    *Ref    `json:"ref,omitempty"`
	Path   *string `json:"path,omitempty"`
}

// StepPatch changes the values of one render step of the template, which renders a chart.
type StepPatch struct {
	// Step is its index.
	Step int `json:"step"`
	// Values are put over the step's.
	Values map[string]any `json:"values,omitempty"`
}

// RemovalPolicy bounds what one change may take from clusters. Its JSON is its stored form.
type RemovalPolicy struct {
	// MaxPercent of the clusters may be left by one change. Nil: see MaxRemoved.
	MaxPercent *int32 `json:"maxPercent,omitempty"`
	// Confirmation is the digest of a removal that a person agreed to.
	Confirmation string `json:"confirmation,omitempty"`
}

// defaultMaxPercent bounds a removal by default.
const defaultMaxPercent = 10

// MaxRemoved returns how many of the clusters one change may take away without a confirmation.
func (p RemovalPolicy) MaxRemoved(members int) int {
	percent := defaultMaxPercent
	if p.MaxPercent != nil {
		percent = int(*p.MaxPercent)
	}
	return max(1, members*percent/100)
}

// Key implements Object.
func (g *GlobalService) Key() Key { return Key{KindGlobalService, g.Name} }

func (g *GlobalService) sameSpec(other Object) bool {
	o, ok := other.(*GlobalService)
	if !ok {
		return false
	}
	a, b := g.Spec, o.Spec
	return a.Description == b.Description && reflect.DeepEqual(a.Clusters, b.Clusters) && a.pause().Equal(b.pause()) &&
		reflect.DeepEqual(a.Removal, b.Removal) && a.Template.same(b.Template) && slices.EqualFunc(a.Overrides, b.Overrides, ServiceOverride.same)
}

func (t ServiceTemplate) same(o ServiceTemplate) bool {
	return maps.Equal(t.Labels, o.Labels) && maps.Equal(t.Annotations, o.Annotations) && slices.Equal(t.Spec.Sources, o.Spec.Sources) &&
		t.Spec.Wanted().Equal(o.Spec.Wanted()) && t.Spec.Config.equal(o.Spec.Config) && slices.Equal(t.Spec.ConfigSets, o.Spec.ConfigSets)
}

func (v ServiceOverride) same(o ServiceOverride) bool {
	return v.Name == o.Name && reflect.DeepEqual(v.Clusters, o.Clusters) && reflect.DeepEqual(v.Patch, o.Patch) && v.Config.equal(o.Config) &&
		slices.Equal(v.ConfigSets, o.ConfigSets)
}

func (g *GlobalService) clone() Object { return new(*g) }

func (g *GlobalService) settle(stored Object) error {
	have, _ := stored.(*GlobalService)
	return g.settleConfigs(have)
}

func (g *GlobalService) reachable() error { return nil }

// checkReferences implements Object, as for a service, except the clusters.
func (g *GlobalService) checkReferences(ctx context.Context, tx Reader) error {
	own, err := ownProject(ctx, tx, g.Name)
	if err != nil {
		return err
	}
	for i, source := range g.Spec.Template.Spec.Sources {
		field := fielderr.Indexed(templateField+".sources", i)
		object, err := own.referred(ctx, tx, Key{KindRepository, source.Repository}, field+".repository")
		if err != nil {
			return err
		}
		if repository, ok := object.(*Repository); ok {
			err = cmp.Or(own.Spec.Limits.admitURL(field+".repository", own.Name, repository), fits(field, source, repository))
		}
		if err != nil {
			return err
		}
	}
	return checkGlobalConfig(ctx, tx, g, own)
}

func (g *GlobalService) checkSettled(context.Context, Reader) error { return nil }

// room implements Object: its derived services count, see Derivations.
func (g *GlobalService) room(ProjectQuotas) Room { return Room{} }

func (g *GlobalService) secrets() map[string]any {
	secrets := map[string]any{}
	for i, config := range g.Configs() {
		if config == nil {
			continue
		}
		for key, text := range config.Secrets {
			secrets[globalSecretField(g, i, key)] = text
		}
	}
	return secrets
}

func (g *GlobalService) changesRelease(stored Object) bool {
	have, ok := stored.(*GlobalService)
	if !ok {
		return true
	}
	a, b := have.Spec.Template, g.Spec.Template
	return a.Spec.Staged().Digest != b.Spec.Staged().Digest || !sameConfig(a.Spec, b.Spec) || !maps.Equal(a.Labels, b.Labels) ||
		!reflect.DeepEqual(stagedOverrides(have.Spec.Overrides), stagedOverrides(g.Spec.Overrides))
}

// Place implements Object.
func (g *GlobalService) Place() Place { return Place{Project: objectname.Project(g.Name)} }

// Configs returns the configurations of the template and of each override, in this order. Nil: there is
// none.
func (g *GlobalService) Configs() []*Config {
	all := make([]*Config, 1, len(g.Spec.Overrides)+1)
	all[0] = g.Spec.Template.Spec.Config
	for _, override := range g.Spec.Overrides {
		all = append(all, override.Config)
	}
	return all
}

// configFields are the fields of Configs.
func (g *GlobalService) configFields() []string {
	fields := []string{"spec.template.config"}
	for i := range g.Spec.Overrides {
		fields = append(fields, fielderr.Indexed("spec.overrides", i)+".config")
	}
	return fields
}

// Selects reports whether the target selects the cluster by its document, and how; When is not
// evaluated.
func (t ClusterTarget) Selects(cluster *Cluster) (how string, ok bool) {
	switch {
	case t.All:
		return "all", true
	case slices.Contains(t.Names, cluster.Name):
		return "names", true
	case t.Labels != nil && t.Labels.Matches(cluster.Labels):
		return "labels", true
	case t.When != "" && t.IsEmpty():
		return "when", true
	}
	return "", false
}

// normalize gives a spec its one stored form. It works on a clone.
func (g *GlobalService) normalize() {
	g.Spec.Clusters = g.Spec.Clusters.settled()
	g.Spec.Overrides = slices.Clone(g.Spec.Overrides)
	for i := range g.Spec.Overrides {
		override := &g.Spec.Overrides[i]
		override.Clusters = override.Clusters.settled()
		if len(override.ConfigSets) == 0 {
			override.ConfigSets = nil
		}
	}
	t := &g.Spec.Template
	if len(t.Spec.ConfigSets) == 0 {
		t.Spec.ConfigSets = nil
	}
	if len(t.Labels) == 0 {
		t.Labels = nil
	}
	if len(t.Annotations) == 0 {
		t.Annotations = nil
	}
	g.SecretDigests = nil
}

func (t ClusterTarget) settled() ClusterTarget {
	t.Names, t.Labels = asSet(t.Names), t.Labels.settled()
	return t
}

// settleConfigs takes over secrets that are sent back as they were shown, and the configuration of the
// template if an update leaves it out. stored is nil for a new object.
func (g *GlobalService) settleConfigs(stored *GlobalService) error {
	had := map[string]*Config{}
	if stored != nil {
		for _, override := range stored.Spec.Overrides {
			had[override.Name] = override.Config
		}
	}
	fields := g.configFields()
	var last *Config
	if stored != nil {
		last = stored.Spec.Template.Spec.Config
	}
	template := &g.Spec.Template.Spec
	var err error
	if template.Config == nil {
		template.Config = last
	} else if template.Config, err = withStoredSecrets(fields[0], template.Config, last); err != nil {
		return err
	}
	for i := range g.Spec.Overrides {
		override := &g.Spec.Overrides[i]
		if override.Config, err = withStoredSecrets(fields[i+1], override.Config, had[override.Name]); err != nil {
			return err
		}
	}
	return nil
}

// withStoredSecrets returns the configuration with stored secrets for empty ones. An empty
// configuration is nil.
func withStoredSecrets(field string, given, stored *Config) (*Config, error) {
	if given.Empty() {
		return nil, nil
	}
	settled := &Config{
		Values: given.Values, Secrets: make(map[string]secret.Text, len(given.Secrets)), References: given.References, Restart: given.Restart,
	}
	for _, key := range slices.Sorted(maps.Keys(given.Secrets)) {
		text := given.Secrets[key]
		if text == "" {
			if stored == nil || stored.Secrets[key] == "" {
				return nil, fielderr.New(field+".secrets["+key+"]", "is empty, and no secret is stored under this key")
			}
			text = stored.Secrets[key]
		}
		settled.Secrets[key] = text
	}
	return settled, nil
}

// DerivedPath returns the path of the service that a global service derives for a cluster.
func (g *GlobalService) DerivedPath(cluster string) string {
	return objectname.ServicePath(g.Name, cluster)
}

// stagedOverrides returns the overrides that change more than brakes, without these.
func stagedOverrides(all []ServiceOverride) []ServiceOverride {
	staged := make([]ServiceOverride, 0, len(all))
	for _, override := range all {
		patch := override.Patch
		patch.Paused, patch.PausedUntil, patch.DryRun = nil, time.Time{}, nil
		if !reflect.DeepEqual(patch, ServicePatch{}) || !override.Config.Empty() || len(override.ConfigSets) > 0 {
			staged = append(staged, ServiceOverride{Clusters: override.Clusters, ConfigSets: override.ConfigSets, Config: override.Config, Patch: patch})
		}
	}
	return slices.Clip(staged)
}

// globalSecretField is the path of a secret in the document of its global service. Overrides have names,
// which stay when others come before them.
func globalSecretField(g *GlobalService, layer int, key string) string {
	if layer == 0 {
		return "spec.template.config.secrets." + key
	}
	return "spec.overrides." + g.Spec.Overrides[layer-1].Name + ".config.secrets." + key
}

// Admits returns an error for a service that the limits of its project do not allow.
func (p *Project) Admits(s *Service) error { return p.Spec.Limits.admitService(s) }
