// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package parameter fills in texts with parameters, such as app-${{ self.labels.region }}: between
// ${{ and }} is a CEL expression over the facts of a cluster, which makes a text. $${{ stands for
// ${{ itself.
//
// The form collides neither with the ${NAME} of manifests nor with the {{ }} of charts.
package parameter

import (
	"context"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/contract/expression"
)

const (
	opening = "${{"
	closing = "}}"
	// maxExpressions bounds the parameters of one text.
	maxExpressions = 32
	// MaxParsed bounds the parameters in all different texts of one Parser.
	MaxParsed = 512
	// MaxResult bounds a text with its parameters filled in, in bytes.
	MaxResult = 64 << 10
	// sample stands for every parameter in Sample. It is a namespace, a folder, a ref and a version.
	sample = "1"
)

// Text is a text with parameters. It is immutable and safe for concurrent use.
type Text struct {
	parts []part
	// parameters counts the parts that are expressions.
	parameters int
}

// part is a piece of a text: words, or an expression.
type part struct {
	words      string
	expression *expression.Expression
}

// IsIn reports whether a text may hold parameters. Texts of which it is false mean themselves.
func IsIn(text string) bool { return strings.Contains(text, opening) }

// Parse compiles the parameters of a text. Its error is a sentence for the author of the text.
func Parse(text string) (*Text, error) {
	t := &Text{}
	for {
		words, rest, found := strings.Cut(text, opening)
		if !found {
			t.parts = append(t.parts, part{words: text})
			return t, nil
		}
		if literal, isEscaped := strings.CutSuffix(words, "$"); isEscaped {
			t.parts = append(t.parts, part{words: literal + opening})
			text = rest
			continue
		}
		source, after, isClosed := cutExpression(rest)
		if !isClosed {
			return nil, fmt.Errorf("%s has no %s after it; write $%s for the text %s itself", opening, closing, opening, opening)
		}
		if t.parameters++; t.parameters > maxExpressions {
			return nil, fmt.Errorf("has more than %d parameters", maxExpressions)
		}
		compiled, err := expression.Compile(source, expression.Text)
		if err != nil {
			return nil, fmt.Errorf("the parameter %s%s%s is wrong: %w", opening, shortened(source), closing, err)
		}
		t.parts = append(t.parts, part{words: words, expression: compiled.Remembering()})
		text = after
	}
}

// cutExpression returns the text before the end of a parameter, and the text after it. The end is
// not inside quotes.
func cutExpression(text string) (source, after string, isClosed bool) {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.HasPrefix(text[i:], closing):
			return text[:i], text[i+len(closing):], true
		}
	}
	return "", "", false
}

// Parser compiles texts, equal ones once, and bounds how many parameters all of them have. The cost
// of checking, keeping and filling in a template therefore has one bound, however many combinations
// of overrides there are. Its zero value is ready. It is for one goroutine at a time.
type Parser struct {
	// Check is called with each parameter that is compiled. Its error is a sentence for the author of the
	// text. Nil: everything that compiles is right.
	Check func(*expression.Expression) error

	known map[string]*Text
	// parameters counts the parameters of the known texts, and bytes their length.
	parameters, bytes int
}

// Bytes returns the length of all texts that were compiled.
func (p *Parser) Bytes() int { return p.bytes }

// Parse is the function Parse, within the bounds of the parser.
func (p *Parser) Parse(text string) (*Text, error) {
	if known, ok := p.known[text]; ok {
		return known, nil
	}
	made, err := Parse(text)
	if err != nil {
		return nil, err
	}
	for _, part := range made.parts {
		if p.Check == nil || part.expression == nil {
			continue
		}
		if err := p.Check(part.expression); err != nil {
			return nil, fmt.Errorf("the parameter %s%s%s is wrong: %w", opening, shortened(part.expression.String()), closing, err)
		}
	}
	if p.parameters+made.parameters > MaxParsed {
		return nil, fmt.Errorf("is one of different texts with more than %d parameters together; use fewer, or write one expression for a part that several texts share", MaxParsed)
	}
	if p.known == nil {
		p.known = map[string]*Text{}
	}
	p.known[text] = made
	p.parameters += made.parameters
	p.bytes += len(text)
	return made, nil
}

// Fill returns the text for a cluster, given its facts. Its error names the expression that fails.
func (t *Text) Fill(ctx context.Context, facts map[string]any) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(p.words)
		if p.expression != nil {
			value, err := p.expression.Text(ctx, facts)
			if err != nil {
				return "", fmt.Errorf("%s%s%s: %w", opening, shortened(p.expression.String()), closing, err)
			}
			b.WriteString(value)
		}
		if b.Len() > MaxResult {
			return "", fmt.Errorf("has more than %d bytes with its parameters filled in", MaxResult)
		}
	}
	return b.String(), nil
}

// Sample returns the text with an example for each parameter, by which its form can be checked before
// there is a cluster.
func (t *Text) Sample() string {
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(p.words)
		if p.expression != nil {
			b.WriteString(sample)
		}
	}
	return b.String()
}

// shortened bounds what a message repeats of an expression.
func shortened(source string) string {
	const most = 200
	if len(source) <= most {
		return source
	}
	return strings.ToValidUTF8(source[:most], "") + "…"
}
