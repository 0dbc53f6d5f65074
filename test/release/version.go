// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// Version is a version of Leat, such as v0.1.0-rc.1. Its zero value is not one.
type Version struct{ tag string }

// ParseVersion reads the version of a release. It has all three numbers, and no build metadata: that
// cannot be in the tag of an image.
func ParseVersion(text string) (Version, error) {
	if !semver.IsValid(text) || semver.Canonical(text) != text {
		return Version{}, fmt.Errorf("VERSION: got %q, want a semantic version such as v0.1.0 or v0.1.0-rc.1", text)
	}
	return Version{text}, nil
}

// Tag returns the version with its v, which is how Git knows it.
func (v Version) Tag() string { return v.tag }

// Number returns the version without its v, which is how programs, images and charts know it.
func (v Version) Number() string { return strings.TrimPrefix(v.tag, "v") }
