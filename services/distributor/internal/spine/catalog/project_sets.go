// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// MaxConfigSets bounds the sets that one project or one service lists.
const MaxConfigSets = 16

// setListField is the field of a project and of a service that lists sets.
const setListField = "spec.config_sets"

// validateSetList checks the names of sets that a project or a service lists.
func validateSetList(field string, paths []string) error {
	seen := make(map[string]struct{}, len(paths))
	return fielderr.Each(field, "sets", paths, MaxConfigSets, func(field, path string) error {
		if _, twice := seen[path]; twice {
			return fielderr.New(field, "%q is listed twice", objectname.Display(path))
		}
		seen[path] = struct{}{}
		return objectname.Validate(field, path)
	})
}

// checkSetList refuses sets that do not exist, or that another project does not share.
func checkSetList(ctx context.Context, tx Reader, own *Project, field string, paths []string) error {
	for i, path := range paths {
		if _, err := own.referred(ctx, tx, Key{KindConfigSet, path}, fielderr.Indexed(field, i)); err != nil {
			return err
		}
	}
	return nil
}
