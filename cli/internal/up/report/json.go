// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"io"
)

// JSON returns a reporter that writes one event a line.
func JSON(w io.Writer) Reporter {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return func(e Event) {
		_ = encoder.Encode(e) // fails only if the reader is gone; the hub continues
	}
}
