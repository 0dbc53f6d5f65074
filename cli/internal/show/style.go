// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import "github.com/leatdev/leat/cli/internal/terminal"

// Style describes the capabilities of the terminal.
type Style struct{ Color bool }

const (
	red    = terminal.Red
	green  = terminal.Green
	yellow = terminal.Yellow
	faint  = terminal.Faint
)

// paint colours text if the style allows it.
func (s Style) paint(text, color string) string {
	if !s.Color || color == "" {
		return text
	}
	return terminal.Paint(text, color)
}

// Good is the style of a good state.
func (s Style) Good(text string) string { return s.paint(text, green) }

// Bad is the style of a state that needs attention.
func (s Style) Bad(text string) string { return s.paint(text, red) }

// Warn is the style of a state in transition.
func (s Style) Warn(text string) string { return s.paint(text, yellow) }

// Faint is the style of less important text.
func (s Style) Faint(text string) string { return s.paint(text, faint) }
