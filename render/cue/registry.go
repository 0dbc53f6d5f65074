// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cue

import (
	"context"
	"fmt"

	"cuelang.org/go/mod/modconfig"
	"cuelang.org/go/mod/modfile"
	"cuelang.org/go/mod/module"
)

// refusal is a registry that has nothing. A render fetches nothing.
type refusal struct{}

var _ modconfig.Registry = refusal{}

func refuse(name string) error {
	return fmt.Errorf("%s is not in the service's tree, and no registry is asked; vendor it in cue.mod/pkg, and take it out of the deps of cue.mod/module.cue", name)
}

// ModFile implements modconfig.Registry.
func (refusal) ModFile(_ context.Context, version module.Version) (*modfile.File, error) {
	return nil, refuse(version.String())
}

// Fetch implements modconfig.Registry.
func (refusal) Fetch(_ context.Context, version module.Version) (module.SourceLoc, error) {
	return module.SourceLoc{}, refuse(version.String())
}

// ModuleVersions implements modconfig.Registry.
func (refusal) ModuleVersions(_ context.Context, name string) ([]string, error) {
	return nil, refuse(name)
}
