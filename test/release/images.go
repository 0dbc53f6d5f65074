// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"io"
	"path/filepath"

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
	content := supply.ImageContent{Name: repository, Version: m.version.Number()}
	for _, b := range variants {
		variant := ocilayout.Variant{OS: b.platform.OS, Architecture: b.platform.Arch}
		for _, f := range p.image.Files {
			entry := archive.Entry{Name: f.Path, Mode: f.Mode, UID: f.UID, GID: f.GID}
			switch {
			case f.IsProgram:
				entry.File = b.path
				content.Programs = append(content.Programs, supply.ImageProgram{Platform: b.platform.String(), Path: "/" + f.Path, File: b.path})
			case f.Source != "":
				entry.File = filepath.Join(m.checkout.top, f.Source)
			}
			variant.Files = append(variant.Files, entry)
		}
		image.Variants = append(image.Variants, variant)
	}
	for _, f := range p.image.Files {
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
