// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/contract/clusterref"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Bounds of a reference.
const (
	maxReferenceBytes = 1024
	maxReferencePath  = 512
	// referenceSeparator separates a back end's name and a path.
	referenceSeparator = "://"
)

// Reference names a value of a configuration at a back end. Its text is BACKEND://PATH#KEY.
type Reference struct {
	Backend string
	// Path is the path of an entry: elements between slashes.
	Path string
	// Key is one in the entry. Empty: the whole entry, as JSON.
	Key string
	// Optional lets the value be missing.
	Optional bool
}

// ParseReference reads the text of a reference. The text of the error is for people and follows the
// name of a field.
func ParseReference(text string) (Reference, error) {
	if len(text) > maxReferenceBytes || !utf8.ValidString(text) {
		return Reference{}, fielderr.New("", "is not a reference of at most %d bytes", maxReferenceBytes)
	}
	if clusterref.Is(text) {
		own, err := clusterref.Parse(text)
		if err != nil {
			return Reference{}, fielderr.New("", "%v", err)
		}
		return Reference{Backend: clusterBackend, Path: own.Namespace + "/" + own.Name, Key: own.Key, Optional: own.IsOptional}, nil
	}
	rest, optional := strings.CutSuffix(text, "?")
	backend, rest, ok := strings.Cut(rest, referenceSeparator)
	if !ok {
		return Reference{}, fielderr.New("", "%.80q is not a reference; write BACKEND://PATH#KEY", text)
	}
	if objectname.ValidateLabel("", backend) != nil || isReservedBackend(backend) {
		return Reference{}, fielderr.New("", "%.80q is not the name of a back end", backend)
	}
	place, key, hasKey := strings.Cut(rest, "#")
	if hasKey && (key == "" || strings.ContainsAny(key, "#?") || hasControl(key)) {
		return Reference{}, fielderr.New("", "%.80q is not a key of an entry; leave out # for the whole entry", key)
	}
	if err := checkConfigPath(place); err != nil {
		return Reference{}, err
	}
	return Reference{Backend: backend, Path: place, Key: key, Optional: optional}, nil
}

// String returns the text.
func (r Reference) String() string {
	text := r.Backend + referenceSeparator + r.Path
	if r.Key != "" {
		text += "#" + r.Key
	}
	if r.Optional {
		text += "?"
	}
	return text
}

// checkConfigPath refuses whatever a back end could read as another path than the one that was
// allowed.
func checkConfigPath(place string) error {
	if place == "" || len(place) > maxReferencePath {
		return fielderr.New("", "has a path of %d bytes; from 1 to %d are allowed", len(place), maxReferencePath)
	}
	if strings.ContainsAny(place, `\%?*[]{}$#:`) || hasControl(place) {
		return fielderr.New("", `%.80q is not a path: characters of \%%?*[]{}$#: are not allowed`, place)
	}
	for element := range strings.SplitSeq(place, "/") {
		if element == "" || element == "." || element == ".." {
			return fielderr.New("", "%.80q is not a path: it has an element that is empty, . or ..", place)
		}
	}
	return nil
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

// isReservedBackend reports whether references that begin with the name mean something else than a
// back end.
func isReservedBackend(name string) bool { return name == "hub" || name == clusterBackend }

// clusterBackend begins references that the agent of the service's cluster follows; see
// [clusterref.Parse].
const clusterBackend = "cluster"

// IsInCluster reports whether the agent of the service's cluster follows the reference.
func (r Reference) IsInCluster() bool { return r.Backend == clusterBackend }

// matchesPath reports whether a glob selects a path. A valid glob ends in ** for all that is below.
func matchesPath(glob, place string) bool {
	if glob == "**" {
		return true
	}
	if above, ok := strings.CutSuffix(glob, "/**"); ok {
		depth := strings.Count(above, "/") + 1
		elements := strings.SplitN(place, "/", depth+1)
		if len(elements) <= depth {
			return false
		}
		glob, place = above, strings.Join(elements[:depth], "/")
	}
	ok, err := path.Match(glob, place)
	return ok && err == nil
}

func validateGlob(field, glob string) error {
	switch {
	case glob == "" || len(glob) > maxReferencePath:
		return fielderr.New(field, "has %d bytes; from 1 to %d are allowed", len(glob), maxReferencePath)
	case strings.ContainsAny(glob, `\[]{}$#:%`) || hasControl(glob):
		return fielderr.New(field, `%.80q is not a glob of a path: * and ? have a meaning, and characters of \[]{}$#:%% are not allowed`, glob)
	}
	plain := strings.TrimSuffix(strings.TrimSuffix(glob, "**"), "/")
	if strings.Contains(plain, "**") || strings.HasSuffix(glob, "**") && glob != "**" && !strings.HasSuffix(glob, "/**") {
		return fielderr.New(field, "%.80q has ** elsewhere than as its last element", glob)
	}
	for element := range strings.SplitSeq(glob, "/") {
		if element == "" || element == "." || element == ".." {
			return fielderr.New(field, "%.80q has an element that is empty, . or ..", glob)
		}
	}
	return nil
}
