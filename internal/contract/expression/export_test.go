// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import "github.com/google/cel-go/common/types"

// Remembered returns how many results an expression remembers.
func (e *Expression) Remembered() int {
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	return len(e.memory.results)
}

// Forge replaces every result that an expression remembers by a text.
func (e *Expression) Forge(text string) {
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	for key, known := range e.memory.results {
		known.value = types.String(text)
		e.memory.results[key] = known
	}
}
