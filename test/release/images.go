// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/leatdev/leat/test/release/archive"
	"github.com/leatdev/leat/test/release/ocilayout"
	"github.com/leatdev/leat/test/supply"
)

// packImage writes the layout and the inventory of the image of a program, for the platforms that it
// is compiled for.
func (m *maker) packImage(p program, variants []built) error {
	repository := m.own.Name(p.name)
	image := ocilayout.Image{
		Name: repository + ":" + m.version.Number(), Tag: m.version.Number(), Created: m.checkout.time, Config: p.image.Config,
	}
	content := supply.ImageContent{Name: repository, Version: m.version.Number(), WebUI: m.ui}
	for _, b := range variants {
		image.Variants = append(image.Variants, p.variant(m.checkout.top, b))
	}
	for _, f := range p.image.Files {
		for _, b := range variants {
			if f.IsProgram {
				content.Programs = append(content.Programs, supply.ImageProgram{Platform: b.platform.String(), Path: "/" + f.Path, File: b.path})
			}
		}
		if f.Source != "" {
			content.Files = append(content.Files, supply.ImageFile{Path: "/" + f.Path, File: filepath.Join(m.checkout.top, f.Source)})
		}
	}
	name := fmt.Sprintf("%s_%s_image", p.file(), m.version.Number())
	err := m.write(imageSet, name+".oci.tar", func(w io.Writer) error {
		id, err := ocilayout.Write(w, m.work, image)
		content.Digest = id.Encoded()
		return err
	})
	if err != nil {
		return err
	}
	m.made[imageSet] = append(m.made[imageSet], subject(repository, content.Digest))
	return m.write(imageSet, name+".cdx.json", func(w io.Writer) error { return supply.WriteImageSBOM(w, content) })
}

// variant returns the image of the program for one platform, of the checkout at top.
func (p program) variant(top string, b built) ocilayout.Variant {
	variant := ocilayout.Variant{OS: b.platform.OS, Architecture: b.platform.Arch}
	for _, f := range p.image.Files {
		entry := archive.Entry{Name: f.Path, Mode: f.Mode, UID: f.UID, GID: f.GID}
		switch {
		case f.IsProgram:
			entry.File = b.path
		case f.Source != "":
			entry.File = filepath.Join(top, f.Source)
		}
		variant.Files = append(variant.Files, entry)
	}
	return variant
}

// ImageSize returns the bytes that a registry stores of the image of a program for a platform, made of
// the checkout at top as it is, with changes that are not committed. The program is compiled in the
// workspace, where its packages have been compiled for the tests: without it, their paths contain a
// version, so all of them are compiled again. The sources are the same, as .ci/run checks.
func ImageSize(ctx context.Context, top, name string, platform Platform) (size int64, err error) {
	top, err = filepath.Abs(top) // go compiles in folders of the checkout
	if err != nil {
		return 0, err
	}
	dockerfile, err := os.ReadFile(filepath.Join(top, "Dockerfile"))
	if err != nil {
		return 0, err
	}
	p, err := readProgram(string(dockerfile), name, checkout{top: top}, Version{})
	if err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp("", "leat-image-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	p.image.Compile.Env = slices.DeleteFunc(p.image.Compile.Env, func(variable string) bool { return variable == "GOWORK=off" })
	b := built{platform: platform, path: filepath.Join(work, "program")}
	if err := p.compile(ctx, top, platform, b.path); err != nil {
		return 0, err
	}
	return ocilayout.Size(work, p.variant(top, b))
}
