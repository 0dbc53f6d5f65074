// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/osteele/liquid"
	tag "github.com/osteele/liquid/render"

	"github.com/leatdev/leat/render"
)

// maxIncludes bounds includes within includes.
const maxIncludes = 50

// newEngine returns the library's engine with bounded filters. The library's own include reads the
// disk.
func (r *run) newEngine() *liquid.Engine {
	engine := liquid.NewEngine()
	engine.StrictVariables()
	r.registerFilters(engine)
	engine.RegisterTag("include", r.include)
	return engine
}

// include renders another file of the tree, named relative to the folder of the template that
// includes it.
func (r *run) include(ctx tag.Context) (string, error) {
	if err := r.bounds.check(); err != nil {
		return "", err
	}
	value, err := ctx.EvaluateString(ctx.TagArgs())
	if err != nil {
		return "", err
	}
	target, isText := value.(string)
	if !isText {
		return "", errors.New("include needs the name of a file, in quotes")
	}
	name := path.Join(path.Dir(r.file), target)
	if path.IsAbs(target) || name == ".." || strings.HasPrefix(name, "../") {
		return "", fmt.Errorf("cannot include %q: it leads out of the service's tree, and nothing there can be read", target)
	}
	if _, found := r.in.Files.Get(name); !found {
		return "", fmt.Errorf("cannot include %q: no such file; looked for %s", target, name)
	}
	if r.depth++; r.depth > maxIncludes {
		return "", r.bounds.exceed(render.LimitDepth, "files include one another more than %d deep; end the recursion", maxIncludes)
	}
	defer func() { r.depth-- }()
	text, err := r.execute(name, maps.Clone(ctx.Bindings()))
	return string(text), err
}
