// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package secret has the one type for texts that no log, error or encoder may show.
package secret

import (
	"fmt"
	"log/slog"
)

// redacted is printed in place of a secret.
const redacted = "redacted"

// Text is a secret text. Packages fmt, log/slog and encoding/json print it as "redacted"; only
// [Text.Reveal] returns it. Decoding JSON into a Text reads the text itself, and an empty Text is
// empty for omitempty.
type Text string

// Reveal returns the text itself.
func (t Text) Reveal() string { return string(t) }

// String hides the text.
func (Text) String() string { return redacted }

// Format hides the text from every verb of package fmt, %#v and %x included.
func (Text) Format(state fmt.State, _ rune) { _, _ = state.Write([]byte(redacted)) }

// LogValue hides the text from package slog.
func (Text) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the text from encoders such as encoding/json.
func (Text) MarshalText() ([]byte, error) { return []byte(redacted), nil }
