// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid

import (
	"context"

	"github.com/osteele/liquid"

	"github.com/leatdev/leat/render"
)

// run is one step. It belongs to one goroutine.
type run struct {
	ctx    context.Context //nolint:containedctx // the library passes none to filters and tags
	in     render.StepInput
	engine *liquid.Engine
	bounds bounds
	asked  render.Asked
	parsed map[string]*liquid.Template // by file

	file  string // the template that is being rendered
	depth int    // of includes
}
