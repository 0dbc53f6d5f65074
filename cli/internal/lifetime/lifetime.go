// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifetime has the flag for how long something is valid.
package lifetime

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Span is a flag for a span of time, which may also be in days or weeks, such as 8h, 30d or 2w.
type Span time.Duration

// String implements pflag.Value.
func (l *Span) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

// Type implements pflag.Value.
func (l *Span) Type() string { return "duration" }

// Set implements pflag.Value.
func (l *Span) Set(text string) error {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		number, ok := strings.CutSuffix(text, unit)
		if n, err := strconv.ParseInt(number, 10, 64); ok && err == nil && n <= math.MaxInt64/int64(length) && n >= 0 {
			*l = Span(time.Duration(n) * length)
			return nil
		}
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want a span of time, such as 8h, 30d or 2w")
	}
	*l = Span(span)
	return nil
}
