// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagetag selects one of the tags of an image.
//
// Tags come from registries, so they count as hostile: Select ignores every tag that is not one by OCI's
// grammar. It has no effects, and the order of the tags makes no difference to its answer.
package imagetag

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Bounds of a selection.
const (
	// MaxTags bounds the tags that a caller may hand to Select.
	MaxTags = 10_000
	// maxExpression bounds a range and a pattern, in bytes. RE2 compiles a pattern of this length to a program whose
	// size is bounded by the package regexp.
	maxExpression = 256
	// versionGroup is the name of the group of a pattern whose text is compared.
	versionGroup = "version"
)

// Order is how tags are compared. The empty one is Semver.
type Order string

// The orders.
const (
	Semver       Order = "SEMVER"
	Numerical    Order = "NUMERICAL"
	Alphabetical Order = "ALPHABETICAL"
)

// Selection selects the greatest of the tags that match. Its JSON is its stored form.
type Selection struct {
	// Range is a range of semantic versions, for Semver alone; empty: all that are not pre-releases.
	Range string `json:"range,omitempty"`
	// Pattern is an expression that the whole tag matches; empty: all do.
	Pattern string `json:"pattern,omitempty"`
	Order   Order  `json:"order,omitempty"`
}

var (
	grammar = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	digests = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// IsTag reports whether a text is a tag by OCI's grammar.
func IsTag(text string) bool { return grammar.MatchString(text) }

// IsDigest reports whether a text is a digest of SHA-256.
func IsDigest(text string) bool { return digests.MatchString(text) }

// Validate returns a *fielderr.Error about a field in field unless Select can work with the selection.
func (s Selection) Validate(field string) error {
	for path, text := range map[string]string{field + ".range": s.Range, field + ".pattern": s.Pattern} {
		if len(text) > maxExpression {
			return fielderr.New(path, "has %d bytes; at most %d are allowed", len(text), maxExpression)
		}
	}
	switch s.Order {
	case "", Semver, Numerical, Alphabetical:
	default:
		return fielderr.New(field+".order", "%.80q is not an order of tags", string(s.Order))
	}
	if s.Range != "" && cmp.Or(s.Order, Semver) != Semver {
		return fielderr.New(field+".range", "is for the order of semantic versions alone; use pattern to leave tags out")
	}
	if _, err := s.constraint(); err != nil {
		return fielderr.New(field+".range", "%.80q is not a range of versions such as ~1.4, >=2 <3 or 1.x", s.Range)
	}
	if _, err := s.expression(); err != nil {
		return fielderr.New(field+".pattern", "%v", err)
	}
	return nil
}

func (s Selection) constraint() (*semver.Constraints, error) {
	if s.Range == "" {
		return semver.NewConstraint("*")
	}
	if strings.TrimSpace(s.Range) == "" {
		return nil, fmt.Errorf("empty range")
	}
	return semver.NewConstraint(s.Range)
}

// expression returns the compiled pattern, or nil if there is none.
func (s Selection) expression() (*regexp.Regexp, error) {
	if s.Pattern == "" {
		return nil, nil // no pattern
	}
	// The pattern is compiled alone first, so that it cannot close the group around it.
	if _, err := regexp.Compile(s.Pattern); err != nil {
		return nil, err
	}
	whole, err := regexp.Compile("^(?:" + s.Pattern + ")$")
	if err != nil {
		return nil, err
	}
	named := 0
	for _, name := range whole.SubexpNames() {
		if name == versionGroup {
			named++
		}
	}
	if named > 1 {
		return nil, fmt.Errorf("has %d groups named %s; at most one is compared", named, versionGroup)
	}
	return whole, nil
}

// Select returns the greatest of the tags that match. ok is false if none does. Of tags that compare as equal, such as 1.2.0
// and v1.2.0, it returns the alphabetically last one. The selection is valid.
func (s Selection) Select(tags []string) (tag string, ok bool) {
	pattern, err := s.expression()
	allowed, err2 := s.constraint()
	if err != nil || err2 != nil {
		return "", false
	}
	var best key
	for _, candidate := range tags {
		if !IsTag(candidate) {
			continue
		}
		compared, matches := part(pattern, candidate)
		if !matches {
			continue
		}
		next, matches := s.keyOf(compared, allowed)
		if !matches {
			continue
		}
		if !ok || cmp.Or(next.compare(best), cmp.Compare(candidate, tag)) > 0 {
			tag, best, ok = candidate, next, true
		}
	}
	return tag, ok
}

// part returns the part of a tag that is compared.
func part(pattern *regexp.Regexp, tag string) (string, bool) {
	if pattern == nil {
		return tag, true
	}
	found := pattern.FindStringSubmatch(tag)
	if found == nil {
		return "", false
	}
	if i := pattern.SubexpIndex(versionGroup); i >= 0 {
		return found[i], true
	}
	return tag, true
}

// key is what is compared of a tag. Only the field of the order is set.
type key struct {
	version *semver.Version
	text    string
}

// keyOf returns the key of a compared text; ok is false if the text has no place in the order.
func (s Selection) keyOf(text string, allowed *semver.Constraints) (k key, ok bool) {
	switch s.Order {
	case Numerical:
		return numberOf(text)
	case Alphabetical:
		return key{text: text}, true
	case Semver:
	}
	version, err := semver.StrictNewVersion(strings.TrimPrefix(text, "v"))
	if err != nil || !allowed.Check(version) {
		return key{}, false
	}
	return key{version: version}, true
}

// numberOf returns the key of a whole number, which may have more digits than a machine's word: the number of its digits comes
// before them.
func numberOf(text string) (key, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return key{}, false
	}
	digits := strings.TrimLeft(text, "0")
	return key{text: fmt.Sprintf("%03d%s", len(digits), digits)}, true
}

func (k key) compare(o key) int {
	if k.version != nil {
		return k.version.Compare(o.version)
	}
	return cmp.Compare(k.text, o.text)
}
