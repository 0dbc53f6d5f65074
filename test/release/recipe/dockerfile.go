// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recipe

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// instruction is one instruction of a Dockerfile, on one line.
type instruction struct {
	keyword, rest string
}

// String returns the beginning of the instruction, for errors.
func (i instruction) String() string {
	text := i.keyword + " " + i.rest
	if len(text) > 60 {
		text = text[:60] + "…"
	}
	return text
}

// stage is a part of a Dockerfile that begins with FROM.
type stage struct {
	name, base   string
	instructions []instruction
}

// fromLine matches the text after FROM. The groups are the base and the name.
var fromLine = regexp.MustCompile(`^(\S+)(?:\s+(?i:AS)\s+(\S+))?$`)

// stagesOf returns the stages of a Dockerfile. An ARG in front of them is a default for the bases of
// stages alone.
func stagesOf(dockerfile string) ([]stage, error) {
	var stages []stage
	for _, i := range instructionsOf(dockerfile) {
		if i.keyword == "FROM" {
			match := fromLine.FindStringSubmatch(i.rest)
			if match == nil {
				return nil, fmt.Errorf("%s: cannot read it", i)
			}
			stages = append(stages, stage{base: match[1], name: match[2]})
			continue
		}
		if len(stages) == 0 && i.keyword == "ARG" {
			continue
		}
		if len(stages) == 0 {
			return nil, fmt.Errorf("%s: it is in front of the first stage", i)
		}
		last := &stages[len(stages)-1]
		last.instructions = append(last.instructions, i)
	}
	return stages, nil
}

// instructionsOf joins continued lines and leaves comments out, also those between continued lines.
func instructionsOf(dockerfile string) []instruction {
	var found []instruction
	whole := ""
	for line := range strings.Lines(dockerfile) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		part, continues := strings.CutSuffix(line, `\`)
		whole += part
		if continues {
			continue
		}
		keyword, rest, _ := strings.Cut(whole, " ")
		found = append(found, instruction{keyword: strings.ToUpper(keyword), rest: strings.TrimSpace(rest)})
		whole = ""
	}
	return found
}

// findStage returns the stage of a name. The last one of the file has the name "".
func findStage(stages []stage, name string) (stage, error) {
	if name == "" && len(stages) > 0 {
		return stages[len(stages)-1], nil
	}
	at := slices.IndexFunc(stages, func(s stage) bool { return s.name == name })
	if at < 0 {
		return stage{}, fmt.Errorf("there is no stage %q", name)
	}
	return stages[at], nil
}

// variable is a use of an ARG.
var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// errShell means that a text uses more of a shell than words does.
var errShell = errors.New(`only words, quotes and ${NAME} are understood`)

// words splits a text as a shell does: at blanks outside of quotes, with the values of variables in
// place of ${NAME}, which are not split. It fails at everything else that means something to a
// shell, except for braces and &.
func words(text string, variables map[string]string) ([]string, error) {
	var (
		found  []string
		word   strings.Builder
		inWord bool
		quote  byte // 0: outside of quotes
	)
	for at := 0; at < len(text); at++ {
		c := text[at]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case c == '$' && quote != '\'':
			match := variable.FindStringSubmatch(text[at:])
			if match == nil {
				return nil, errShell
			}
			value, isSet := variables[match[1]]
			if !isSet {
				return nil, fmt.Errorf("no ARG %s", match[1])
			}
			word.WriteString(value)
			inWord = true
			at += len(match[0]) - 1
		case quote == 0 && (c == ' ' || c == '\t'):
			if inWord {
				found = append(found, word.String())
			}
			word.Reset()
			inWord = false
		case quote == 0 && strings.IndexByte(";|<>()*?~#\\`", c) >= 0, quote == '"' && (c == '\\' || c == '`'):
			return nil, errShell
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote does not end")
	}
	if inWord {
		found = append(found, word.String())
	}
	return found, nil
}
