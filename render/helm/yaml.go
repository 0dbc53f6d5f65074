// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/render"
)

// byteOrderMark begins files of some editors. Helm drops it.
var byteOrderMark = []byte("\xef\xbb\xbf")

func isYAML(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) && !strings.Contains("/"+name, "/templates/")
}

// checkAliases returns a *render.LimitError about a file of YAML that grows too large by its
// aliases.
func checkAliases(name string, content []byte, limits render.Limits) error {
	err := render.CheckAliases(content, limits.WithDefaults().Text)
	if limit, ok := errors.AsType[*render.LimitError](err); ok {
		limit.Path = name
	}
	return err
}
