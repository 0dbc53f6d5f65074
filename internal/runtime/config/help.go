// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Help writes the help text: every setting with its flag, variable, meaning and default, in the
// groups and the order in which they were bound.
func (s *Set) Help(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "Usage: %s [flags]\n\n", s.program)
	out.WriteString("A flag beats its environment variable, which beats the default.\n")
	groups := append(s.groups(), &group{title: "Other", settings: []*setting{
		{flag: "--help", usage: "show this text"}, {flag: "--version", usage: "show the version"},
	}})
	flagWidth, envWidth := widths(groups)
	for _, group := range groups {
		fmt.Fprintf(&out, "\n%s:\n", group.title)
		for _, b := range group.settings {
			fmt.Fprintf(&out, "  %-*s   %-*s   %s\n", flagWidth, b.helpFlag(), envWidth, b.helpEnv(), b.helpUsage())
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// Document writes the settings as Markdown, one table for each group, for docs/reference/config.md.
func (s *Set) Document(w io.Writer) error {
	var out bytes.Buffer
	for i, group := range s.groups() {
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "### %s\n\n| flag | environment | default | meaning |\n|---|---|---|---|\n", group.title)
		for _, b := range group.settings {
			fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", code(b.flag), b.documentEnv(), code(b.def), cell(b.usage))
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// widths returns the column widths that align all groups.
func widths(groups []*group) (flagWidth, envWidth int) {
	for _, group := range groups {
		for _, b := range group.settings {
			flagWidth, envWidth = max(flagWidth, len(b.helpFlag())), max(envWidth, len(b.helpEnv()))
		}
	}
	return flagWidth, envWidth
}

type group struct {
	title    string
	settings []*setting
}

// groups returns the settings by group, in the order of binding. Settings of one title are joined
// even if another group was bound in between.
func (s *Set) groups() []*group {
	var all []*group
	byTitle := make(map[string]*group)
	for _, b := range s.settings {
		if b.hidden {
			continue
		}
		g := byTitle[b.group]
		if g == nil {
			g = &group{title: b.group}
			byTitle[b.group] = g
			all = append(all, g)
		}
		g.settings = append(g.settings, b)
	}
	return all
}

func (b *setting) helpFlag() string {
	if b.flag == "" || b.kind == "" {
		return b.flag
	}
	return b.flag + " " + b.kind
}

func (b *setting) helpEnv() string {
	if b.file != nil {
		return b.env + "[_FILE]"
	}
	return b.env
}

func (b *setting) helpUsage() string {
	usage := b.usage
	if b.file != nil {
		usage += "; " + b.file.flag + " reads it from a file"
	}
	if b.def != "" && b.def != "false" {
		usage += " [" + b.def + "]"
	}
	return usage
}

func (b *setting) documentEnv() string {
	if b.file != nil {
		return code(b.env) + ", " + code(b.file.env)
	}
	return code(b.env)
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + cell(text) + "`"
}

// cell escapes a text so that it does not end its table cell.
func cell(text string) string {
	return strings.ReplaceAll(text, "|", "\\|")
}
