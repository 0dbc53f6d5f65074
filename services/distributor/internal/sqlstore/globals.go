// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type globalRow struct {
	bun.BaseModel `bun:"table:global_services,alias:gs"`
	ownedColumns
	Spec    column[globalColumn]        `bun:"spec"`
	Digests column[[]map[string]string] `bun:"digests"`
	Secrets []byte                      `bun:"secrets"`
}

// globalColumn is the stored form of a catalog.GlobalServiceSpec, without secrets.
type globalColumn struct {
	Description string                `json:"description,omitempty"`
	Clusters    catalog.ClusterTarget `json:"clusters"`
	Labels      map[string]string     `json:"labels,omitempty"`
	Annotations map[string]string     `json:"annotations,omitempty"`
	Template    specColumn            `json:"template"`
	Values      map[string]string     `json:"values,omitempty"`
	References  map[string]string     `json:"references,omitempty"`
	Restart     bool                  `json:"restart,omitempty"`
	Overrides   []overrideColumn      `json:"overrides,omitempty"`
	Paused      bool                  `json:"paused,omitempty"`
	PausedUntil time.Time             `json:"pausedUntil,omitzero"`
	Removal     catalog.RemovalPolicy `json:"removal,omitzero"`
}

type overrideColumn struct {
	Name       string                `json:"name"`
	Clusters   catalog.ClusterTarget `json:"clusters"`
	ConfigSets []string              `json:"configSets,omitempty"`
	Values     map[string]string     `json:"values,omitempty"`
	References map[string]string     `json:"references,omitempty"`
	Restart    bool                  `json:"restart,omitempty"`
	catalog.ServicePatch
}

// storedGlobals have the secrets of all layers sealed together. Their place differs from every
// service's.
var storedGlobals = storage[*catalog.GlobalService, *globalRow]{
	kind: catalog.KindGlobalService, columns: []string{"spec", "digests"},
	row:    func(g *catalog.GlobalService) *globalRow { return &globalRow{Spec: columnOf(globalColumnOf(g.Spec))} },
	object: (*globalRow).global,
	secrets: []sealedPart[*catalog.GlobalService, *globalRow]{
		sealedJSON(sealedColumn{"global_services", "uid", "secrets", purposeSecrets, "global *"},
			func(r *globalRow) *[]byte { return &r.Secrets }, hasSecrets, layerSecrets, giveLayerSecrets),
	},
	changed: func(c *catalog.Changes) *[]*catalog.GlobalService { return &c.Globals },
}

func hasSecrets(g *catalog.GlobalService) bool {
	return slices.ContainsFunc(g.Configs(), func(c *catalog.Config) bool { return c != nil && len(c.Secrets) > 0 })
}

// layerSecrets returns the secrets of each layer of a global service.
func layerSecrets(g *catalog.GlobalService) (layers []map[string]string) {
	for _, config := range g.Configs() {
		if config == nil {
			config = &catalog.Config{}
		}
		layers = append(layers, revealed(config.Secrets))
	}
	return layers
}

func giveLayerSecrets(g *catalog.GlobalService, layers []map[string]string) {
	for layer, config := range g.Configs() {
		if config == nil || layer >= len(layers) {
			continue
		}
		for key := range config.Secrets {
			config.Secrets[key] = secret.Text(layers[layer][key])
		}
	}
}

// globalColumnOf returns the stored form of a spec.
func globalColumnOf(spec catalog.GlobalServiceSpec) globalColumn {
	t := spec.Template
	c := globalColumn{
		Description: spec.Description, Clusters: spec.Clusters, Labels: t.Labels, Annotations: t.Annotations, Template: specOf(t.Spec),
		Paused: spec.Paused, PausedUntil: spec.PausedUntil, Removal: spec.Removal,
	}
	if config := t.Spec.Config; config != nil {
		c.Values, c.References, c.Restart = config.Values, config.References, config.Restart
	}
	for _, override := range spec.Overrides {
		o := overrideColumn{Name: override.Name, Clusters: override.Clusters, ConfigSets: override.ConfigSets, ServicePatch: override.Patch}
		if config := override.Config; config != nil {
			o.Values, o.References, o.Restart = config.Values, config.References, config.Restart
		}
		c.Overrides = append(c.Overrides, o)
	}
	return c
}

// global returns the row without its secrets: only their keys.
func (r *globalRow) global() *catalog.GlobalService {
	c := r.Spec.v
	options := c.Template.Options
	options.Paused = options.Paused && !c.Template.Unpaused
	digests := r.Digests.v
	configOf := func(layer int, values, references map[string]string, restart bool) *catalog.Config {
		config := &catalog.Config{Values: values, Secrets: map[string]secret.Text{}, References: references, Restart: restart}
		if layer < len(digests) {
			for key := range digests[layer] {
				config.Secrets[key] = ""
			}
		}
		if config.Empty() {
			return nil
		}
		return config
	}
	g := &catalog.GlobalService{Metadata: r.metadata(), SecretDigests: digests, Spec: catalog.GlobalServiceSpec{
		Description: c.Description, Clusters: c.Clusters, Paused: c.Paused, PausedUntil: c.PausedUntil, Removal: c.Removal,
		Template: catalog.ServiceTemplate{Labels: c.Labels, Annotations: c.Annotations, Spec: catalog.ServiceSpec{
			Sources: c.Template.Sources, Options: &options, Config: configOf(0, c.Values, c.References, c.Restart), ConfigSets: c.Template.ConfigSets,
		}},
	}}
	for i, o := range c.Overrides {
		g.Spec.Overrides = append(g.Spec.Overrides, catalog.ServiceOverride{
			Name: o.Name, Clusters: o.Clusters, Patch: o.ServicePatch, ConfigSets: o.ConfigSets,
			Config: configOf(i+1, o.Values, o.References, o.Restart),
		})
	}
	return g
}

// layerDigests returns keyed digests of the secrets of each layer.
func layerDigests(k *keyStore, g *catalog.GlobalService) (layers []map[string]string) {
	for _, config := range g.Configs() {
		keyed := map[string]string{}
		if config != nil {
			for key, text := range config.Secrets {
				keyed[key] = k.digests.Load().Fingerprint(keyedSecret("leat.global.secret.v1\x00", g.UID, key, text))
			}
		}
		layers = append(layers, keyed)
	}
	return layers
}

// keyedSecret writes a secret down for its digest. The uid keeps apart objects that hold the same
// one: no reader is to learn that they do.
func keyedSecret(begin, uid, key string, text secret.Text) []byte {
	b := []byte(begin)
	for _, s := range []string{uid, key, text.Reveal()} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	return b
}
