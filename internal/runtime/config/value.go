// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is a number of bytes.
type Bytes int64

// The units that [ParseBytes] accepts and [Bytes.String] prints, largest first.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

type unit struct {
	suffix string
	size   Bytes
}

// units is ordered so that each suffix precedes the suffixes that it ends with, and larger sizes
// precede smaller ones.
func units() []unit {
	return []unit{
		{"TiB", TiB},
		{"GiB", GiB},
		{"MiB", MiB},
		{"KiB", KiB},
		{"TB", 1e12},
		{"GB", 1e9},
		{"MB", 1e6},
		{"kB", 1e3},
		{"B", 1},
	}
}

// String prints the size in the largest binary unit that leaves a whole number.
func (b Bytes) String() string {
	if b == 0 {
		return "0"
	}
	for _, u := range units()[:4] {
		if b%u.size == 0 {
			return fmt.Sprintf("%d%s", int64(b/u.size), u.suffix)
		}
	}
	return fmt.Sprintf("%dB", int64(b))
}

// ParseBytes reads a size: a number of zero or more and a unit, B, KiB, MiB, GiB, TiB, kB, MB, GB
// or TB. Only 0 needs no unit.
func ParseBytes(text string) (Bytes, error) {
	errSize := errors.New("want a size with a unit, such as 64KiB, 512MiB or 10GiB")
	text = strings.TrimSpace(text)
	if text == "0" {
		return 0, nil
	}
	for _, u := range units() {
		digits, found := strings.CutSuffix(text, u.suffix)
		if !found {
			continue
		}
		number, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		total := number * float64(u.size)
		if err != nil || !(total >= 0 && total < math.MaxInt64) {
			return 0, errSize
		}
		return Bytes(math.Round(total)), nil
	}
	return 0, errSize
}

func parseText[T ~string](text string) (T, error) { return T(text), nil }

func parseDuration(text string) (time.Duration, error) {
	parsed, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || parsed < 0 {
		return 0, errors.New("want a duration with units, zero or more, such as 500ms, 90s or 2m30s")
	}
	return parsed, nil
}

// formatDuration prints 2m rather than 2m0s, and 1h rather than 1h0m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func parseBool(text string) (bool, error) {
	parsed, err := strconv.ParseBool(strings.TrimSpace(text))
	if err != nil {
		return false, errors.New("want true or false")
	}
	return parsed, nil
}

func parseInt(text string) (int, error) {
	parsed, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || parsed < 0 {
		return 0, errors.New("want a whole number, zero or more")
	}
	return parsed, nil
}

func parseList(text string) ([]string, error) {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items, nil
}
