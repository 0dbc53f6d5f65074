// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import "github.com/leatdev/leat/internal/kit/fielderr"

// Room is how many objects of one kind a project may have. The zero Room does not bound them.
type Room struct {
	// Quota is the quota that people set for the project. Nil: they set none.
	Quota *int32
	// Most bounds the objects of every project, which Words name. Zero: it does not.
	Most  int
	Words string
}

// check refuses another object of the kind in a project that has some already.
func (r Room) check(project string, kind Kind, has int) error {
	switch {
	case r.Quota != nil && has >= int(*r.Quota):
		plural := ResourceOf(kind)
		return fielderr.New(projectField, "%q has %d %s, and its quota allows %d; delete one, or raise spec.quotas.%s of the project",
			project, has, plural, *r.Quota, plural)
	case r.Most > 0 && has >= r.Most:
		return fielderr.New(projectField, "%q has %d %s already, which is the most that are allowed", project, has, r.Words)
	}
	return nil
}

// ProjectQuotas bound the number of a project's objects, and the bytes of its bundles. Nil: there is no
// bound.
//
// A bundle belongs to the project of the repository that it is made of, whichever services name it: each
// one has one owner, who decides what it holds.
type ProjectQuotas struct {
	Services     *int32 `json:"services,omitempty"`
	Repositories *int32 `json:"repositories,omitempty"`
	// BundleBytes bounds all bundles that services name now, before compression; those with equal
	// content count once.
	BundleBytes *int64 `json:"bundleBytes,omitempty"`
	// BytesPerBundle bounds each of them.
	BytesPerBundle *int64 `json:"bytesPerBundle,omitempty"`
}

const projectField = "metadata.project"
