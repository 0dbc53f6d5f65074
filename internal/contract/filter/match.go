// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// cut returns as much of an object's value as is compared.
func cut(text string) string { return text[:min(len(text), maxCompared)] }

// equals returns a function that reports whether a text is one of the values.
func equals(kind Type, values []value) func(string) bool {
	return func(text string) bool {
		text = cut(text)
		for _, v := range values {
			if v.isPattern() {
				if glob(v.text, text, kind == Word) {
					return true
				}
				continue
			}
			switch kind {
			case Word:
				if strings.EqualFold(v.text, text) {
					return true
				}
			case Hash:
				if strings.HasPrefix(text, v.text) {
					return true
				}
			case Text, Age:
				if v.text == text {
					return true
				}
			}
		}
		return false
	}
}

// glob reports whether a pattern with * and ? covers a text. Its steps are at most the product of both
// lengths.
func glob(pattern, text string, isFolded bool) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || isSame(pattern[p], text[t], isFolded)):
			p++
			t++
		case star >= 0: // the last star takes one more
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

func isSame(a, b byte, isFolded bool) bool {
	return a == b || isFolded && lower(a) == lower(b)
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// contains returns a function that reports whether a text contains one of the values. Letters of ASCII
// are compared in either case. Its steps are at most twice the length of the text for each value, by
// the method of Knuth, Morris and Pratt.
func contains(values []value) func(string) bool {
	needles := make([]needle, len(values))
	for i, v := range values {
		needles[i] = newNeedle(v.text)
	}
	return func(text string) bool {
		text = cut(text)
		for i := range needles {
			if needles[i].isIn(text) {
				return true
			}
		}
		return false
	}
}

// needle is a text to look for, in lower case, with how far each of its beginnings ends in another
// beginning.
type needle struct {
	text string
	back []int
}

func newNeedle(text string) needle {
	folded := []byte(text)
	for i, b := range folded {
		folded[i] = lower(b)
	}
	n := needle{text: string(folded), back: make([]int, len(folded))}
	for i, k := 1, 0; i < len(folded); i++ {
		for k > 0 && folded[i] != folded[k] {
			k = n.back[k-1]
		}
		if folded[i] == folded[k] {
			k++
		}
		n.back[i] = k
	}
	return n
}

func (n *needle) isIn(text string) bool {
	if len(n.text) > len(text) {
		return false
	}
	if n.text == "" {
		return true
	}
	k := 0
	for i := range len(text) {
		b := lower(text[i])
		for k > 0 && b != n.text[k] {
			k = n.back[k-1]
		}
		if b == n.text[k] {
			if k++; k == len(n.text) {
				return true
			}
		}
	}
	return false
}

// maxSpan bounds spans of time.
const maxSpan = 100 * 365 * 24 * time.Hour

// parseSpan reads a span of time, such as 90s, 2h30m, 7d or 2w.
func parseSpan(values []value) (time.Duration, error) {
	errShape := errors.New("want one span of time, such as 90s, 15m, 2h, 7d or 2w")
	if len(values) != 1 {
		return 0, errShape
	}
	text := values[0].text
	var span time.Duration
	for _, unit := range []struct {
		word  string
		hours int
	}{{"w", 7 * 24}, {"d", 24}} {
		count, rest, ok := strings.Cut(text, unit.word)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(count, 10, 16)
		if err != nil {
			return 0, errShape
		}
		span, text = span+time.Duration(n)*time.Duration(unit.hours)*time.Hour, rest
	}
	if text != "" {
		rest, err := time.ParseDuration(text)
		if err != nil || rest < 0 {
			return 0, errShape
		}
		span += rest
	}
	if values[0].text == "" || span > maxSpan || span < 0 {
		return 0, errShape
	}
	return span, nil
}
