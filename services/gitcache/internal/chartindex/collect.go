// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/Masterminds/semver/v3"
)

const (
	maxName    = 250 // as Helm has it
	maxVersion = 128
	maxURL     = 2048
	maxURLs    = 16 // that are tried for one that can be used
	maxCreated = 64
	maxShown   = 80 // of a name in a reason
)

// entry holds the decoded fields of a version.
type entry struct {
	Version string   `json:"version" yaml:"version"`
	Digest  string   `json:"digest" yaml:"digest"`
	URLs    []string `json:"urls" yaml:"urls"`
	Created string   `json:"created" yaml:"created"`
}

// collector puts an index together, chart by chart.
type collector struct {
	selected Selection
	before   *Index
	limits   Limits
	charts   []Chart
	listed   int             // how many charts the index has so far
	entries  int             // how many entries the selected charts have
	seen     map[string]bool // names of the selected charts
	versions int
	bytes    int // of the text of charts that were kept
	skipped  int // charts
	reasons  []string
}

func newCollector(p Params) *collector {
	return &collector{selected: p.Charts, before: p.Before, limits: p.Limits.withDefaults(), seen: map[string]bool{}}
}

// nameForm is Helm's, without names that would be odd as a part of a ref.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$`)

// admit reports whether the chart of that name is to be kept. The error is for an index that lists
// the name twice, or too many names.
func (c *collector) admit(name string) (bool, error) {
	if c.listed++; c.listed > c.limits.Charts {
		return false, &FormatError{Why: fmt.Sprintf("has more than %d charts", c.limits.Charts)}
	}
	if !c.selected.Has(name) {
		return false, nil
	}
	if len(name) > maxName || !nameForm.MatchString(name) || strings.HasSuffix(name, ".lock") {
		c.skip(fmt.Sprintf("%q is not the name of a chart", shorten(name)))
		return false, nil
	}
	switch {
	case c.seen[name]:
		return false, &FormatError{Why: fmt.Sprintf("lists the chart %q twice", name)}
	}
	c.seen[name] = true
	return true, nil
}

// skip counts a chart that cannot be used.
func (c *collector) skip(reason string) {
	c.skipped++
	if len(c.reasons) < maxReasons {
		c.reasons = append(c.reasons, reason)
	}
}

// unchanged returns the chart of that name as it was last time, or false where its text is not the
// same.
func (c *collector) unchanged(name, sum string) (Chart, bool) {
	chart, ok := c.before.chart(name)
	return chart, ok && chart.Sum == sum
}

// add keeps a chart.
func (c *collector) add(chart Chart) error {
	c.versions += len(chart.Versions)
	c.entries += len(chart.Versions) + chart.Skipped
	c.bytes += chart.bytes()
	if err := c.limits.check(c.versions, c.entries, c.bytes); err != nil {
		return err
	}
	chart.Versions = slices.Clip(chart.Versions)
	c.charts = append(c.charts, chart)
	return nil
}

// check returns an error where there is more than may be.
func (l Limits) check(versions, entries, bytes int) error {
	switch {
	case versions > l.Versions:
		return &TooManyError{Max: l.Versions}
	case entries > l.Entries:
		return &FormatError{Why: fmt.Sprintf("has more than %d entries of the charts to mirror", l.Entries)}
	case bytes > l.Text:
		return &FormatError{Why: fmt.Sprintf("has URLs, versions and names of more than %d bytes together", l.Text)}
	}
	return nil
}

// bytes returns how much text a chart has.
func (c Chart) bytes() int {
	n := len(c.Name) + len(c.Reason) + len(c.Sum)
	for _, v := range c.Versions {
		n += v.bytes()
	}
	return n
}

func (v Version) bytes() int { return len(v.Version) + len(v.Digest) + len(v.URL) + len(v.Created) }

// index returns what was collected.
func (c *collector) index() *Index {
	slices.SortFunc(c.charts, func(a, b Chart) int { return strings.Compare(a.Name, b.Name) })
	x := &Index{Charts: c.charts, Skipped: c.skipped, Reasons: c.reasons}
	for _, chart := range c.charts {
		x.Skipped += chart.Skipped
		if chart.Reason != "" && len(x.Reasons) < maxReasons {
			x.Reasons = append(x.Reasons, chart.Name+": "+chart.Reason)
		}
	}
	return x
}

// versions puts the versions of one chart together.
type versions struct {
	collect *collector
	chart   Chart
	seen    map[string]bool
	bytes   int // of the text of the versions
}

func (c *collector) newVersions(name, sum string) *versions {
	return &versions{collect: c, chart: Chart{Name: name, Sum: sum}, seen: map[string]bool{}}
}

// add keeps a version if it can be used. Of several with one version the first that can be used
// counts.
func (v *versions) add(e *entry) error {
	kept, reason := judge(e)
	if reason == "" && v.seen[kept.Version] {
		reason = fmt.Sprintf("version %s is listed twice", kept.Version)
	}
	if reason != "" {
		return v.skip(reason)
	}
	v.seen[kept.Version] = true
	v.chart.Versions = append(v.chart.Versions, kept)
	v.bytes += kept.bytes()
	return v.check()
}

// skip counts an entry that cannot be used.
func (v *versions) skip(reason string) error {
	v.chart.Skipped++
	if v.chart.Reason == "" {
		v.chart.Reason = reason
	}
	return v.check()
}

// check ends a chart that has too much by itself, before all of it is held.
func (v *versions) check() error {
	c, n := v.collect, len(v.chart.Versions)
	return c.limits.check(c.versions+n, c.entries+n+v.chart.Skipped, c.bytes+v.bytes)
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// judge returns an entry as a version, or why it cannot be used.
func judge(e *entry) (v Version, reason string) {
	if e == nil {
		return v, "an entry is empty"
	}
	if _, err := semver.NewVersion(e.Version); err != nil || len(e.Version) > maxVersion {
		return v, fmt.Sprintf("%q is not a version", shorten(e.Version))
	}
	digest := strings.TrimPrefix(strings.ToLower(e.Digest), "sha256:")
	if digest != "" && !digestForm.MatchString(digest) {
		return v, fmt.Sprintf("version %s has a digest that is not a SHA-256", e.Version)
	}
	if len(e.Created) > maxCreated || strings.ContainsFunc(e.Created, unicode.IsControl) {
		return v, fmt.Sprintf("version %s has a time that is not one", e.Version)
	}
	address, reason := chooseURL(e.URLs)
	if reason != "" {
		return v, fmt.Sprintf("version %s %s", e.Version, reason)
	}
	return Version{
		Version: strings.Clone(e.Version), Digest: strings.Clone(digest), URL: strings.Clone(address), Created: strings.Clone(e.Created),
	}, ""
}

// chooseURL returns the first URL that can be used, or why none can.
func chooseURL(urls []string) (address, reason string) {
	if len(urls) == 0 {
		return "", "has no URL"
	}
	reason = "has no URL that can be used"
	for _, text := range urls[:min(len(urls), maxURLs)] {
		u, err := url.Parse(text)
		switch {
		case err != nil || text == "" || len(text) > maxURL || u.User != nil || u.Opaque != "" || strings.ContainsFunc(text, isSpaceOrControl):
		case u.Scheme == "oci":
			reason = "lies in an OCI registry; define a repository of the type oci for it"
		case u.Scheme == "" && u.Host == "", (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "":
			return text, ""
		}
	}
	return "", reason
}

func isSpaceOrControl(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// shorten returns the beginning of foreign text.
func shorten(text string) string {
	if len(text) > maxShown {
		return text[:maxShown] + "…"
	}
	return text
}

// checkAPIVersion tells an index from any other text. Helm demands the same.
func checkAPIVersion(version string) error {
	if version == "" {
		return &FormatError{Why: "has no apiVersion: it is not the index of a chart repository"}
	}
	return nil
}
