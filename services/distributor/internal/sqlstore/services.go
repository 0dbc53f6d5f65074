// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type serviceRow struct {
	bun.BaseModel `bun:"table:services,alias:s"`
	ownedColumns
	ClusterUID  string               `bun:"cluster_uid"`
	Spec        column[specColumn]   `bun:"spec"`
	SyncRequest string               `bun:"sync_request"`
	Config      column[configColumn] `bun:"config"` // holds no secret
}

// storedServices are in rows without their secrets, which have a table of their own.
var storedServices = storage[*catalog.Service, *serviceRow]{
	kind: catalog.KindService, columns: []string{"spec", "sync_request", "config"},
	row: func(s *catalog.Service) *serviceRow {
		return &serviceRow{Spec: columnOf(specOf(s.Spec)), SyncRequest: s.SyncRequest, Config: columnOf(configOf(s.Spec.Config))}
	},
	object:  (*serviceRow).service,
	changed: func(c *catalog.Changes) *[]*catalog.Service { return &c.Services },
}

// service returns the row without its secrets: only their keys.
func (r *serviceRow) service() *catalog.Service {
	spec, options := r.Spec.v, r.Spec.v.Options
	options.Paused = options.Paused && !spec.Unpaused
	name := r.Config.v.Name
	if r.Config.v.Digest == "" {
		name = catalog.NoConfig
	}
	return &catalog.Service{
		Metadata: r.metadata(), SyncRequest: r.SyncRequest, ConfigDigest: r.Config.v.Digest, ConfigName: name, HeldConfig: r.Config.v.Held,
		ConfigProblem: r.Config.v.Problem, ConfigWaits: r.Config.v.Waits,
		Spec: catalog.ServiceSpec{Cluster: spec.Cluster, Sources: spec.Sources, Options: &options, Config: r.Config.v.shown(), ConfigSets: spec.ConfigSets},
	}
}

// specColumn is the stored form of a catalog.ServiceSpec.
type specColumn struct {
	Cluster string           `json:"cluster"`
	Sources []catalog.Source `json:"sources"`
	// ConfigSets are paths of sets, lowest first.
	ConfigSets []string `json:"configSets,omitempty"`
	syncpolicy.Options
	// Sync holds five of the options a second time. Replicas of earlier versions know them in no
	// other place, and would prune where an owner turned that off.
	Sync *syncpolicy.Options `json:"sync"`
	// Unpaused means that the service is not paused, although it is in Options. Replicas of earlier
	// versions do not know steps, mounts and charts, and would have agents apply something else. They
	// read a paused service, and so its agent leaves it unchanged.
	Unpaused bool `json:"unpaused,omitempty"`
}

func specOf(spec catalog.ServiceSpec) specColumn {
	o := spec.Wanted()
	column := specColumn{Cluster: spec.Cluster, Sources: spec.Sources, ConfigSets: spec.ConfigSets, Options: o, Sync: &syncpolicy.Options{
		Prune: o.Prune, CreateNamespace: o.CreateNamespace, HealthTimeout: o.HealthTimeout,
		ForceConflicts: o.ForceConflicts, PruneConfirmation: o.PruneConfirmation,
	}}
	if len(spec.Requires()) > 0 && !o.Paused {
		column.Paused, column.Unpaused = true, true
	}
	return column
}

// UnmarshalJSON implements json.Unmarshaler. Earlier versions wrote the five options of Sync there
// alone.
func (c *specColumn) UnmarshalJSON(text []byte) error {
	type plain specColumn
	c.Sync = &c.Options
	return json.Unmarshal(text, (*plain)(c))
}

// secretsRow holds the secrets of a service's own document.
type secretsRow struct {
	bun.BaseModel `bun:"table:service_secrets,alias:sx"`
	ServiceUID    string `bun:"service_uid,pk"`
	Sealed        []byte `bun:"sealed"`
}

var serviceSecrets = sealedColumn{"service_secrets", "service_uid", "sealed", purposeSecrets, placeOfKey}

func (r *secretsRow) open(k *keyStore) (map[string]secret.Text, error) {
	var plain map[string]string
	err := serviceSecrets.openJSON(k, r.ServiceUID, r.Sealed, &plain)
	return concealed(plain), err
}

// configColumn is the visible part of a configuration.
type configColumn struct {
	// Digest is the digest of all layers; empty: none of them holds anything.
	Digest string `json:"digest"`
	// Name and Held are ConfigName and HeldConfig of catalog.Service. Without a digest there is no name.
	Name   string              `json:"name,omitempty"`
	Held   *catalog.HeldConfig `json:"held,omitempty"`
	Values map[string]string   `json:"values,omitempty"`
	// Secrets are the keys of the secrets, sorted.
	Secrets []string `json:"secrets,omitempty"`
	// References are texts of references by key. Their targets are in service_given.
	References map[string]string `json:"references,omitempty"`
	Restart    bool              `json:"restart,omitempty"`
	// Problem and Waits are as in catalog.Service.
	Problem *catalog.Problem `json:"problem,omitempty"`
	Waits   bool             `json:"waits,omitempty"`
}

// configOf returns the stored form of the configuration in a service's own document. Its digest and
// its problem are made of all layers; see package compose.
func configOf(config *catalog.Config) configColumn {
	if config.Empty() {
		return configColumn{}
	}
	return configColumn{
		Values: config.Values, Secrets: slices.Sorted(maps.Keys(config.Secrets)), References: config.References, Restart: config.Restart,
	}
}

// shown returns what anybody may see of the document's own configuration, or nil for an absent one.
func (c configColumn) shown() *catalog.Config {
	if len(c.Values)+len(c.Secrets)+len(c.References) == 0 && !c.Restart {
		return nil
	}
	config := &catalog.Config{Values: c.Values, Secrets: make(map[string]secret.Text, len(c.Secrets)), References: c.References, Restart: c.Restart}
	for _, key := range c.Secrets {
		config.Secrets[key] = ""
	}
	return config
}
