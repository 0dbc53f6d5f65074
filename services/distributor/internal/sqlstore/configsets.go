// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

type setRow struct {
	bun.BaseModel `bun:"table:config_sets,alias:cs"`
	ownedColumns
	Spec   column[setColumn] `bun:"spec"`
	Sealed []byte            `bun:"sealed"`
	// Marks stand for the secrets. Sets that earlier versions wrote have none.
	Marks column[map[string]catalog.SecretMark] `bun:"marks"`
}

// setColumn is the visible part of a set.
type setColumn struct {
	Description string            `json:"description,omitempty"`
	Values      map[string]string `json:"values,omitempty"`
	// Secrets are the keys of the secrets, sorted.
	Secrets    []string          `json:"secrets,omitempty"`
	References map[string]string `json:"references,omitempty"`
}

// storedSets have their secrets sealed together.
var storedSets = storage[*catalog.ConfigSet, *setRow]{
	kind: catalog.KindConfigSet, columns: []string{"spec", "marks"},
	row: func(s *catalog.ConfigSet) *setRow {
		row := &setRow{Spec: columnOf(setColumn{Description: s.Spec.Description})}
		if config := s.Spec.Config; !config.Empty() {
			row.Spec.v.Values, row.Spec.v.References = config.Values, config.References
			row.Spec.v.Secrets = slices.Sorted(maps.Keys(config.Secrets))
		}
		return row
	},
	object: (*setRow).set,
	secrets: []sealedPart[*catalog.ConfigSet, *setRow]{
		sealedJSON(sealedColumn{"config_sets", "uid", "sealed", purposeSets, placeOfKey},
			func(r *setRow) *[]byte { return &r.Sealed },
			func(s *catalog.ConfigSet) bool { return !s.Spec.Config.Empty() && len(s.Spec.Config.Secrets) > 0 },
			func(s *catalog.ConfigSet) map[string]string { return revealed(s.Spec.Config.Secrets) },
			func(s *catalog.ConfigSet, plain map[string]string) { s.Spec.Config.Secrets = concealed(plain) }),
	},
	changed: func(c *catalog.Changes) *[]*catalog.ConfigSet { return &c.ConfigSets },
}

// set returns the row without its secrets.
func (r *setRow) set() *catalog.ConfigSet {
	spec := r.Spec.v
	return &catalog.ConfigSet{Metadata: r.metadata(), SecretMarks: r.Marks.v, Spec: catalog.ConfigSetSpec{
		Description: spec.Description, Config: configColumn{Values: spec.Values, Secrets: spec.Secrets, References: spec.References}.shown(),
	}}
}

// marksOf returns what stands for the secrets of a set. The uid keeps apart sets that hold the same ones.
func marksOf(k *keyStore, uid string, secrets map[string]secret.Text) map[string]catalog.SecretMark {
	marks := make(map[string]catalog.SecretMark, len(secrets))
	for key, text := range secrets {
		marks[key] = catalog.SecretMark{
			Digest: k.digests.Load().Fingerprint(keyedSecret("leat.set.secret.v1\x00", uid, key, text)), Bytes: len(text),
		}
	}
	return marks
}
