// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

// maxExpression bounds one expression, in bytes.
const maxExpression = 4 << 10

func validateExpression(path, source string) error {
	if len(source) > maxExpression {
		return invalid(path, "has %d bytes; at most %d are allowed", len(source), maxExpression)
	}
	return nil
}
