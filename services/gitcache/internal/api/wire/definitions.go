// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"regexp"
	"strings"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/upstream/upstreamwire"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

var submoduleForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// CheckName checks the name of a repository that a person has defined: a path of package
// objectname.
func CheckName(field, name string) error {
	if !objectname.IsPath(name) {
		return rpcerr.Field(
			field, "It must be NAME or PROJECT.NAME, each of lower-case letters, digits and hyphens, at most 63.",
		)
	}
	return nil
}

// CheckAnyName is CheckName where the name may belong to a submodule's repository, which cannot be
// put or deleted.
func CheckAnyName(field, name string) error {
	if own, id, ok := strings.Cut(name, mirror.SubmoduleMark); ok && submoduleForm.MatchString(id) {
		name = own
	}
	return CheckName(field, name)
}

// ParseDefinition checks the definition of a repository that a request holds in its field repository.
func ParseDefinition(d *gitcachev1.RepositoryDefinition) (mirror.Definition, error) {
	if d == nil {
		return mirror.Definition{}, rpcerr.Field("repository", "It is required.")
	}
	if err := CheckName("repository.name", d.GetName()); err != nil {
		return mirror.Definition{}, err
	}
	switch {
	case d.GetParent() != "":
		return mirror.Definition{}, rpcerr.Field(
			"repository.parent", "It must be empty: submodules are defined by gitcache itself.",
		)
	case !mirror.IsUID(d.GetUid()):
		return mirror.Definition{}, rpcerr.Field(
			"repository.uid", "It is required: letters, digits, '.', '_' and '-', at most 128.",
		)
	case d.GetVersion() < 0:
		return mirror.Definition{}, rpcerr.Field("repository.version", "It must not be negative.")
	}
	wanted, err := upstreamwire.Definition(d)
	if err == nil {
		err = wanted.Validate()
	}
	if err != nil {
		return mirror.Definition{}, Error(fielderr.Within("repository", err), d.GetName())
	}
	return mirror.Definition{
		Name: d.GetName(), UID: d.GetUid(), Version: d.GetVersion(), Definition: wanted.WithDefaults(),
	}, nil
}
