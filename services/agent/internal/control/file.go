// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"path/filepath"

	"github.com/leatdev/leat/internal/kit/durable"
)

// writeFile replaces a file atomically and durably. A reader sees the old content or the new. Only
// the owner may read it.
func writeFile(path string, content []byte) error {
	name := filepath.Base(path)
	if err := durable.WriteFile(path, "."+name+"-*", content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
