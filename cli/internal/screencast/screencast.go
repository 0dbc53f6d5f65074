// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package screencast turns the output of commands into recordings of a terminal: an asciicast, which
// players of the web show, and an animated picture, which a README shows.
//
// A recording holds whole lines of plain text. It knows no cursor and no colours of programs: what
// Leat prints into a pipe has neither.
package screencast

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Columns and Rows are the size of the terminal.
const (
	Columns = 100
	Rows    = 28
)

// Line is a line of the terminal.
type Line struct {
	// At is the time since the beginning at which the line appeared.
	At   time.Duration
	Text string
	// IsCommand reports whether a person typed the line, after a prompt.
	IsCommand bool
}

// Recording is the output of a terminal. Its lines are in the order of their times.
type Recording struct {
	Title string
	Lines []Line
}

// Paced returns the recording at a pace that viewers can follow: no pause is longer than longest,
// which cuts what a machine does meanwhile, and the pause before each command but the first is at
// least reading, which leaves time for what the one before it printed.
func (r Recording) Paced(longest, reading time.Duration) Recording {
	lines := make([]Line, 0, len(r.Lines))
	var before, at time.Duration
	for i, line := range r.Lines {
		pause := min(line.At-before, longest)
		if line.IsCommand && i > 0 {
			pause = max(pause, reading)
		}
		before, at = line.At, at+pause
		line.At = at.Round(time.Millisecond)
		lines = append(lines, line)
	}
	return Recording{Title: r.Title, Lines: lines}
}

// Length returns the time of the last line.
func (r Recording) Length() time.Duration {
	if len(r.Lines) == 0 {
		return 0
	}
	return r.Lines[len(r.Lines)-1].At
}

// WriteCast writes the recording as an asciicast of version 2
// (https://docs.asciinema.org/manual/asciicast/v2/).
func (r Recording) WriteCast(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	header := struct {
		Version int    `json:"version"`
		Width   int    `json:"width"`
		Height  int    `json:"height"`
		Title   string `json:"title"`
	}{2, Columns, Rows, r.Title}
	if err := encoder.Encode(header); err != nil {
		return fmt.Errorf("write the header: %w", err)
	}
	for _, line := range r.Lines {
		if err := encoder.Encode([]any{line.At.Seconds(), "o", line.shown() + "\r\n"}); err != nil {
			return fmt.Errorf("write a line: %w", err)
		}
	}
	return nil
}

// shown returns the text that fits into the terminal, with a prompt before a command.
func (l Line) shown() string {
	text := l.Text
	if l.IsCommand {
		text = "$ " + text
	}
	if runes := []rune(text); len(runes) > Columns {
		return string(runes[:Columns-1]) + "…"
	}
	return text
}

// These are the picture's measures, in pixels.
const (
	lineHeight   = 18
	letterWidth  = 8.4
	margin       = 16
	rest         = 4 * time.Second // the last state stays for so long
	pictureStyle = `text{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#24292f}` +
		`.c{font-weight:bold;fill:#0550ae}.b{fill:#f6f8fa}` +
		`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.c{fill:#79c0ff}.b{fill:#0d1117}}`
)

// WriteSVG writes the recording as a picture that repeats it: each line appears at its time, and
// all lines move up when the terminal is full. The picture holds neither scripts nor references.
func (r Recording) WriteSVG(w io.Writer) error {
	var style, lines bytes.Buffer
	total := r.Length() + rest
	percent := func(at time.Duration) string {
		return fmt.Sprintf("%.3f%%", 100*float64(at)/float64(total))
	}
	seconds := fmt.Sprintf("%.2fs", total.Seconds())
	moves := "0%{transform:translateY(0)}"
	for i, line := range r.Lines {
		if above := i + 1 - Rows; above > 0 {
			moves += fmt.Sprintf("%s{transform:translateY(%dpx)}", percent(line.At), -above*lineHeight)
		}
		fmt.Fprintf(&style, "@keyframes l%d{0%%{visibility:hidden}%s{visibility:visible}}", i, percent(line.At))
		class := ""
		if line.IsCommand {
			class = ` class="c"`
		}
		fmt.Fprintf(&lines, `<text%s x="%d" y="%d" style="animation:l%d %s step-end infinite">`,
			class, margin, margin+(i+1)*lineHeight-4, i, seconds)
		if err := xml.EscapeText(&lines, []byte(line.shown())); err != nil {
			return fmt.Errorf("escape a line: %w", err)
		}
		lines.WriteString("</text>\n")
	}
	fmt.Fprintf(&style, "@keyframes m{%s}#m{animation:m %s step-end infinite}", moves, seconds)

	width, height := 2*margin+int(Columns*letterWidth), 2*margin+Rows*lineHeight
	var title strings.Builder
	if err := xml.EscapeText(&title, []byte(r.Title)); err != nil {
		return fmt.Errorf("escape the title: %w", err)
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">
<title>%s</title>
<style>%s%s</style>
<clipPath id="t"><rect x="0" y="%d" width="%d" height="%d"/></clipPath>
<rect class="b" width="%d" height="%d" rx="8"/>
<g clip-path="url(#t)"><g id="m">
%s</g></g>
</svg>
`, width, height, title.String(), pictureStyle, style.String(), margin, width, Rows*lineHeight, width, height, lines.String())
	if err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}
