// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// lifetime is a flag for a span of time, which may also be in days or weeks.
type lifetime time.Duration

// String implements pflag.Value.
func (l *lifetime) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

// Type implements pflag.Value.
func (l *lifetime) Type() string { return "duration" }

// Set implements pflag.Value.
func (l *lifetime) Set(text string) error {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		number, ok := strings.CutSuffix(text, unit)
		if n, err := strconv.ParseInt(number, 10, 64); ok && err == nil && n <= math.MaxInt64/int64(length) && n >= 0 {
			*l = lifetime(time.Duration(n) * length)
			return nil
		}
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want a span of time, such as 8h, 30d or 2w")
	}
	*l = lifetime(span)
	return nil
}
