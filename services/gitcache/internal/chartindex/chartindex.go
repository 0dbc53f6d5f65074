// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package chartindex reads the index of a Helm chart repository: which versions of which charts
// there are, where their archives lie, and which digests they have.
//
// Its promises:
//
//   - Memory follows the kept charts, not the size of the index. The text of a chart is cut out of the
//     index by its indentation, and a few versions are decoded at a time.
//   - The text of a chart that has not changed since the last time is hashed, and not decoded.
//   - Cutting never changes what the index means. A text that cannot be cut, because a value
//     continues left of where it began or an alias names an anchor of another chart, is decoded as
//     a whole if it is small, and refused otherwise.
//   - An entry that cannot be used is left out and counted, and the others are read. An index that
//     is not YAML or JSON, or names a chart twice, is refused, as Helm refuses it.
//   - Every part has a bound. A larger one is left out or refused before it is held in memory.
//
// Calls run one way: [Parse] chooses the form. cut.go cuts YAML into charts and items.go those into
// versions, piece.go decodes a piece of YAML, json.go reads JSON token by token, and collect.go
// decides about keeping. The package does no input or output except through the reader that it is
// given, and has no state.
package chartindex

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

const (
	// MaxBytes bounds an index.
	MaxBytes = 256 << 20
	// MaxVersions bounds the versions that an [Index] holds by default. Every one is a ref, which
	// each replica that has the mirror keeps in memory.
	MaxVersions = 50_000
	// MaxPatterns bounds the patterns of a [Selection].
	MaxPatterns = 1000

	maxEntry   = 256 << 10 // of the text of one version
	maxWhole   = 2 << 20   // of YAML that is decoded in one piece
	maxMarks   = 200_000   // of punctuation in that; see checkMarks
	maxOutside = 256 << 10 // of the lines beside the entries
	maxDepth   = 1000      // of skipped JSON
	batch      = 16 << 10  // of entries that are decoded together
	maxReasons = 10
)

// Index holds the selected charts of an index. It is never changed once made, and indexes may share
// their charts. Its JSON is for the one who keeps it until the next time.
type Index struct {
	// Charts are in the order of their names.
	Charts []Chart `json:"charts"`
	// Skipped is how many entries of the selected charts cannot be used.
	Skipped int `json:"skipped,omitempty"`
	// Reasons has the reasons for the first of them.
	Reasons []string `json:"reasons,omitempty"`
}

// Chart is one chart with its versions.
type Chart struct {
	Name string `json:"name"`
	// Versions are in the order of the index. None is listed twice.
	Versions []Version `json:"versions,omitempty"`
	// Skipped is how many of its entries cannot be used, and Reason is why the first one cannot.
	Skipped int    `json:"skipped,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Sum identifies the text that the chart was decoded from. Empty: the chart was not cut out.
	Sum string `json:"sum,omitempty"`
}

// Version is one entry that can be used.
type Version struct {
	Version string `json:"version"`
	// Digest is the SHA-256 of the archive in 64 lower-case digits. Empty: the index does not have
	// it.
	Digest string `json:"digest,omitempty"`
	// URL is where the archive lies, as the index has it: the first URL that is relative or has the
	// scheme http or https.
	URL string `json:"url"`
	// Created is the time that the index has, as text.
	Created string `json:"created,omitempty"`
}

// ID returns the id of the archive: its digest, or, where the index has none, a SHA-256 over its
// entry in the index. address is the absolute form of URL.
func (v Version) ID(address string) string {
	if v.Digest != "" {
		return v.Digest
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "leat.helm.v1\n%q\n%q\n%q\n", address, v.Version, v.Created))
	return hex.EncodeToString(sum[:])
}

// Versions returns how many versions the index holds.
func (x *Index) Versions() int {
	n := 0
	for _, chart := range x.Charts {
		n += len(chart.Versions)
	}
	return n
}

// chart returns the chart of that name, or false where there is none.
func (x *Index) chart(name string) (Chart, bool) {
	if x == nil {
		return Chart{}, false
	}
	i, found := slices.BinarySearchFunc(x.Charts, name, func(c Chart, name string) int { return strings.Compare(c.Name, name) })
	if !found {
		return Chart{}, false
	}
	return x.Charts[i], true
}

// Selection names charts: by name, or by patterns of [path.Match]. The zero Selection has all
// charts.
type Selection struct {
	names    map[string]bool
	patterns []string
}

// NewSelection returns a selection of the charts that match any of the patterns. Without patterns
// it has all charts.
func NewSelection(patterns []string) (Selection, error) {
	if len(patterns) > MaxPatterns {
		return Selection{}, fmt.Errorf("%d patterns of charts; at most %d are allowed", len(patterns), MaxPatterns)
	}
	s := Selection{names: map[string]bool{}}
	for _, pattern := range patterns {
		if pattern == "" || len(pattern) > maxName {
			return Selection{}, fmt.Errorf("pattern %q must have 1 to %d characters", shorten(pattern), maxName)
		}
		if _, err := path.Match(pattern, ""); err != nil {
			return Selection{}, fmt.Errorf("pattern %q is not a name or a pattern such as team-*", pattern)
		}
		if strings.ContainsAny(pattern, `*?[\\`) {
			s.patterns = append(s.patterns, pattern)
		} else {
			s.names[pattern] = true
		}
	}
	return s, nil
}

// Has reports whether the chart of that name is selected.
func (s Selection) Has(name string) bool {
	return len(s.patterns)+len(s.names) == 0 || s.names[name] || slices.ContainsFunc(s.patterns, func(pattern string) bool {
		matches, err := path.Match(pattern, name)
		return err == nil && matches
	})
}

// Limits bound the reading and keeping of an index. A field that is zero takes the value that it
// has in [DefaultLimits].
type Limits struct {
	Versions int // that are kept
	Text     int // bytes of all that is kept
	Entries  int // of the selected charts, of use or not
	Charts   int // selected or not
}

// DefaultLimits returns bounds that the largest public repositories stay within. The versions of
// ordinary repositories have some 200 bytes of text each.
func DefaultLimits() Limits {
	return Limits{Versions: MaxVersions, Text: 32 << 20, Entries: 500_000, Charts: 100_000}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		Versions: cmp.Or(l.Versions, d.Versions), Text: cmp.Or(l.Text, d.Text), Entries: cmp.Or(l.Entries, d.Entries), Charts: cmp.Or(l.Charts, d.Charts),
	}
}

// Params selects what to read.
type Params struct {
	Limits Limits
	// Charts are the charts to keep.
	Charts Selection
	// Before is the previous content of the index. Charts whose text is the same are taken from it.
	// Nil: nothing is known.
	Before *Index
}

// Source is the text of an index. It is read more than once, by one goroutine.
type Source struct {
	io.ReaderAt
	Size int64
}

// FormatError means that a text is not an index, or not one that can be read within the bounds.
type FormatError struct{ Why string } // a phrase that follows "the index"

// Error implements error.
func (e *FormatError) Error() string { return "the index " + e.Why }

// TooManyError means that an index has more versions of the selected charts than may be kept.
type TooManyError struct{ Max int }

// Error implements error.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("the index has more than %d versions of the charts to mirror; name fewer of them in charts", e.Max)
}

// uncutError means that a text cannot be cut into charts without changing what it means, or is not
// JSON although it looks like it.
type uncutError struct{ why string } // a phrase that follows "the index"

// Error implements error.
func (e *uncutError) Error() string { return "the index " + e.why }

// byteOrderMark may be at the beginning of UTF-8.
const byteOrderMark = "\ufeff"
