// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// CheckRange tells whether text is a range of versions.
func CheckRange(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("parse range: it is empty")
	}
	if _, err := semver.NewConstraint(text); err != nil {
		return fmt.Errorf("parse range: %w", err)
	}
	return nil
}

// release is a tag that is a version.
type release struct {
	ref     Ref
	version *semver.Version
}

func compareReleases(a, b release) int { return a.version.Compare(b.version) }

// parseRelease takes tags with three numbers only. Anything looser would take dates and build numbers for the highest
// version of all.
func parseRelease(ref Ref) (release, bool) {
	text := strings.TrimPrefix(strings.TrimPrefix(ref.Name, TagPrefix), "v")
	version, err := semver.StrictNewVersion(text)
	return release{ref: ref, version: version}, err == nil && ref.Commit != ""
}

// releases returns the tags that are versions, by name.
func (r Refs) releases() []release {
	var found []release
	for _, ref := range r.Below(TagPrefix, "", len(r)) {
		if v, ok := parseRelease(ref); ok {
			found = append(found, v)
		}
	}
	return found
}

func (c Content) resolveRange(s Selector) (string, error) {
	within, err := semver.NewConstraint(s.Value)
	if err != nil {
		return "", fmt.Errorf("parse range %q: %w", s.Value, err)
	}
	all := c.Refs.releases()
	var best, held release // held: the best of those that deliver nothing
	for _, v := range all {
		most := &best
		if v.ref.Delivered() == "" {
			most = &held
		}
		if within.Check(v.version) && (most.version == nil || compareReleases(v, *most) >= 0) {
			*most = v
		}
	}
	switch {
	case best.version != nil:
		return best.ref.deliver(s)
	case held.version != nil:
		return held.ref.deliver(s)
	}
	return "", &RefError{Selector: s, Close: highest(all)}
}

// highest returns the names of the highest versions, the highest first.
func highest(all []release) []string {
	slices.SortStableFunc(all, func(a, b release) int { return compareReleases(b, a) })
	var names []string
	for _, v := range all[:min(len(all), maxClose)] {
		names = append(names, v.ref.Name)
	}
	return names
}
