// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

// Variables returns what the substitution was made of.
func (s *Substitution) Variables() Variables { return s.variables }
