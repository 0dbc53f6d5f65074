// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartdep

import "github.com/leatdev/leat/internal/contract/upstream"

// Places reports whether a repository is where the dependency comes from.
func (n Need) Places(name string, def upstream.Definition) bool { return n.places(name, def) }
