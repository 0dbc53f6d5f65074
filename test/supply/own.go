// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Own holds the names of the images that are built from this repository.
type Own struct {
	// Repository begins all names: a registry, and a path in it.
	Repository string
	// Tag is the tag of the images of a checkout. Images of a release have its version.
	Tag string
}

// setting matches a line of deploy/images.env.
var setting = regexp.MustCompile(`(?m)^(IMAGE_REPOSITORY|IMAGE_TAG)=([a-z0-9][a-z0-9./-]*)$`)

// ReadOwn returns the names of the checkout at top, from its deploy/images.env.
func ReadOwn(top string) (Own, error) {
	file := filepath.Join(top, "deploy", "images.env")
	content, err := os.ReadFile(file)
	if err != nil {
		return Own{}, err
	}
	found := map[string]string{}
	for _, m := range setting.FindAllStringSubmatch(string(content), -1) {
		found[m[1]] = m[2]
	}
	own := Own{Repository: found["IMAGE_REPOSITORY"], Tag: found["IMAGE_TAG"]}
	if own.Repository == "" || own.Tag == "" {
		return Own{}, fmt.Errorf("%s: got %+v, want IMAGE_REPOSITORY and IMAGE_TAG", file, own)
	}
	return own, nil
}

// Name returns the name of a program's image, without a tag.
func (o Own) Name(program string) string { return o.Repository + "/" + program }

// Image returns the reference to a program's image of a checkout.
func (o Own) Image(program string) string { return o.Name(program) + ":" + o.Tag }

// Has reports whether an image is one of this repository's, with any tag.
func (o Own) Has(i Image) bool {
	return strings.HasPrefix(i.Registry+"/"+i.Name, o.Repository+"/")
}
